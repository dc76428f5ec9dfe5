/** The chain of releases up to the newest that act mode supports. Function bundles contain these releases and no newer ones. */
import { KUBERNETES_MAJOR, KUBERNETES_MINOR } from "../objects/release.ts";
import { releaseOf, releasesOf } from "./release.ts";
import type { Release } from "./release.ts";
import { BEHAVIOUR as behaviour32 } from "./v1.32/behaviour.ts";
import { POD_TEMPLATE_TYPES as types32 } from "./v1.32/pod-template-types.ts";
import { POD_TEMPLATE_TYPES as types33 } from "./v1.33/pod-template-types.ts";
import { BEHAVIOUR as behaviour34 } from "./v1.34/behaviour.ts";
import { POD_TEMPLATE_TYPES as types34 } from "./v1.34/pod-template-types.ts";
import { BEHAVIOUR as behaviour35 } from "./v1.35/behaviour.ts";
import { POD_TEMPLATE_TYPES as types35 } from "./v1.35/pod-template-types.ts";
import { BEHAVIOUR as behaviour36 } from "./v1.36/behaviour.ts";
import { POD_TEMPLATE_TYPES as types36 } from "./v1.36/pod-template-types.ts";
import { POD_TEMPLATE_TYPES as types37 } from "./v1.37/pod-template-types.ts";

/** The releases whose template hashes are cached, and for which shadow mode decides. */
export const RELEASED: readonly Release[] = releasesOf({ name: "1.32", types: types32, behaviour: behaviour32 }, [
  { name: "1.33", types: types33 },
  { name: "1.34", types: types34, behaviour: behaviour34 },
  { name: "1.35", types: types35, behaviour: behaviour35 },
  { name: "1.36", types: types36, behaviour: behaviour36 },
  { name: "1.37", types: types37 },
]);

/** The releases in upstream's support window. From 1.35 on, resourceVersions can be compared (KEP-5504). */
export const ACTING_RELEASES: readonly Release[] = RELEASED.slice(-3);

/** The release of the node agent and the in-memory API server. Controllers use it if no release is published: in tests and replays. */
export const OWN_RELEASE: Release = ownRelease();

function ownRelease(): Release {
  const name = `${KUBERNETES_MAJOR}.${KUBERNETES_MINOR}`;
  const own = releaseOf(name, ACTING_RELEASES);
  if (own === undefined) throw new Error(`there is no release ${name} in shared/kube/releases`);
  return own;
}
