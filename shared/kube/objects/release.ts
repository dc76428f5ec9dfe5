/**
 * The Kubernetes release that this project implements. The node agent and the in-memory API server report it, and the reference
 * implementations in tests have it. test/tooling/release.test.ts compares every go.mod, table and document with it.
 */
export const KUBERNETES_VERSION = "v1.37.2";

/** Major and minor version of the release, as strings. */
export const [KUBERNETES_MAJOR = "", KUBERNETES_MINOR = ""] = KUBERNETES_VERSION.slice(1).split(".");
