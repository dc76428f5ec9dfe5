/** The release whose controllers are compared with ours. */
import { RELEASED, releaseOf } from "../../shared/kube/releases.ts";
import { COMPARED_VERSION } from "../envtest/release-module.ts";

const release = releaseOf(COMPARED_VERSION, RELEASED);
if (release === undefined) throw new Error(`DIFFERENTIAL_RELEASE=${COMPARED_VERSION} is not a release in shared/kube/releases`);
export const COMPARED_RELEASE = release;
