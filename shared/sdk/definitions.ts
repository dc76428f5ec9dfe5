export { kindsOf, problemsOf } from "./checks/problems.ts";
export { crdManifest } from "./manifests/crd.ts";
export { NAMESPACE_MANIFEST, rbacManifests, rightsOf } from "./manifests/rbac.ts";
export { apiVersionOf, isMetadataOnly } from "./definition/kind.ts";
export type { Definition, WatchedData } from "./definition/controller.ts";
export type { KindData, KindId } from "./definition/kind.ts";
export type { Mask } from "./definition/see.ts";
export type { Manifest } from "./manifests/crd.ts";
export type { Right } from "./manifests/rbac.ts";
