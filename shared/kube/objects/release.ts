/**
 * The release of Kubernetes whose behaviour we have: what the node agent and the API server in memory call themselves, and what
 * the judges are built of. test/tooling/release.test.ts holds every go.mod, table and document to this line.
 */
export const KUBERNETES_VERSION = "v1.36.3";

/** The `1` and the `36` of it. */
export const [KUBERNETES_MAJOR = "", KUBERNETES_MINOR = ""] = KUBERNETES_VERSION.slice(1).split(".");
