/**
 * The annotations of workloads whose values are cached in clear; `strip` replaces all other values by digests (ST1). Of a pod's annotations
 * only the deletion cost is cached (strip.ts); views of user controllers cache all values as digests (project.ts).
 */

/** Never cached, not even as a digest: it contains the whole manifest. */
export const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** Prefixes of Kubernetes annotations that decisions read (shared/controllers/deployment/annotations.ts). All of them hold numbers. */
const ALLOWED_PREFIXES = ["deployment.kubernetes.io/", "controller.kubernetes.io/"] as const;
const ROLLBACK_TO = "deprecated.deployment.rollback.to";

/** Returns whether the value of the annotation `key` is cached in clear. */
export function isAllowedAnnotation(key: string): boolean {
  return key === ROLLBACK_TO || ALLOWED_PREFIXES.some((prefix) => key.startsWith(prefix));
}
