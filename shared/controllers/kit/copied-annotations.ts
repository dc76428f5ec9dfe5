/** Annotations whose values only the live owner has: whether it is still the one the decision saw, and what they say there. */
import type { CachedMeta, KubeObject, Labels } from "@deltaloop/kube/objects";
import { ownAt } from "@deltaloop/base";
import type { CopiedAnnotations } from "./writes.ts";

/** Whether the live owner's digests, all of them, are those that the decision saw: a status write changes annotations without a new generation. */
export function seenAlready({ annotationDigests = {} }: CachedMeta, copied: CopiedAnnotations | undefined): boolean {
  if (copied === undefined) return true;
  const keys = Object.keys(annotationDigests);
  return keys.length === Object.keys(copied.digests).length && keys.every((key) => annotationDigests[key] === copied.digests[key]);
}

/** Keys and values to be set. They may be secret, so they go into a body and nowhere else. */
export function copiedValues({ metadata: { annotations = {} } }: KubeObject, copied: CopiedAnnotations | undefined): Labels {
  return Object.fromEntries(
    (copied?.keys ?? []).flatMap((key) => {
      const value = ownAt(annotations, key);
      return value === undefined ? [] : [[key, value]];
    }),
  );
}
