/** The release whose controllers are compared with ours: that of the pins, or the one in DIFFERENTIAL_RELEASE (`npm run releases`). */
import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { RELEASED, releaseOf } from "../../shared/kube/releases.ts";

export const COMPARED_VERSION = process.env["DIFFERENTIAL_RELEASE"] ?? KUBERNETES_VERSION;

const release = releaseOf(COMPARED_VERSION, RELEASED);
if (release === undefined) throw new Error(`DIFFERENTIAL_RELEASE=${COMPARED_VERSION} is of no release in shared/kube/releases`);
export const COMPARED_RELEASE = release;
