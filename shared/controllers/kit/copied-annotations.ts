/** Annotations that are copied from the live owner, because the cache holds only their digests. */
import type { CachedMeta, KubeObject, Labels } from "@deltaloop/kube/objects";
import { ownAt } from "@deltaloop/base";
import type { CopiedAnnotations } from "./writes.ts";

/**
 * Whether all digests of the live owner equal those of the decision. Needed because a status write can change annotations without a new
 * generation.
 */
export function seenAlready({ annotationDigests = {} }: CachedMeta, copied: CopiedAnnotations | undefined): boolean {
  if (copied === undefined) return true;
  const keys = Object.keys(annotationDigests);
  return keys.length === Object.keys(copied.digests).length && keys.every((key) => annotationDigests[key] === copied.digests[key]);
}

/** Returns the annotations to set. Values may be secret, so they go into the request body only. */
export function copiedValues({ metadata: { annotations = {} } }: KubeObject, copied: CopiedAnnotations | undefined): Labels {
  return Object.fromEntries(
    (copied?.keys ?? []).flatMap((key) => {
      const value = ownAt(annotations, key);
      return value === undefined ? [] : [[key, value]];
    }),
  );
}
