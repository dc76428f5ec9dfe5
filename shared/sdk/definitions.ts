export { kindsOf, problemsOf } from "./checks/problems.ts";
export { crdManifest } from "./manifests/crd.ts";
export { NAMESPACE_MANIFEST, rbacManifests } from "./manifests/rbac.ts";
export type { Definition } from "./definition/controller.ts";
export type { Manifest } from "./manifests/crd.ts";
