/**
 * The Kubernetes release whose behaviour is implemented: the version that the node agent and the in-memory API server report, and of the
 * reference implementations in tests. test/tooling/release.test.ts compares every go.mod, table and document with it.
 */
export const KUBERNETES_VERSION = "v1.37.2";

/** `1` and `36`. */
export const [KUBERNETES_MAJOR = "", KUBERNETES_MINOR = ""] = KUBERNETES_VERSION.slice(1).split(".");
