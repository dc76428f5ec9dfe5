/**
 * Builds the cached objects of a user controller's view, as `strip` does for the built-in controllers: ST2, ST3 and ST5 also apply
 * here. Only the metadata fields listed here are cached, and annotation values only as digests.
 */
import { entriesOf } from "./strip.ts";
import { isObject } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import type { CachedMeta, CachedObject } from "../objects/cached.ts";
import { MalformedObjectError } from "../objects/errors.ts";
import { isResourceVersion } from "../objects/resource-version.ts";
import type { OwnView } from "../objects/resources.ts";
import { type Digester, isAnnotationDigest } from "../pod-template/digest.ts";
import { LAST_APPLIED } from "./annotation-allowlist.ts";

const KEPT = ["generation", "labels", "ownerReferences", "finalizers", "creationTimestamp", "deletionTimestamp"] as const;

/** Returns the part of `spec` and `status` that a view keeps. */
type Kept = (object: { readonly spec?: unknown; readonly status?: unknown }) => Pick<CachedObject, "spec" | "status">;

/**
 * Returns a view's projection, which without `keep` has only metadata.
 * @throws {MalformedObjectError} when the object lacks name, uid or a decimal resourceVersion, or has invalid ownerReferences
 */
export function projected(view: OwnView, object: unknown, digester: Digester, keep?: Kept): CachedObject {
  const metadata = isObject(object) ? object["metadata"] : undefined;
  if (!isObject(object) || !isObject(metadata)) throw new MalformedObjectError(view, "no metadata");
  return { metadata: projectMeta(view, metadata, digester), ...keep?.(object) };
}

function projectMeta(view: OwnView, metadata: JsonObject, digester: Digester): CachedMeta {
  const { namespace = "", name, uid, resourceVersion, ownerReferences = [] } = metadata;
  if (typeof name !== "string" || name === "") throw new MalformedObjectError(view, "no name");
  if (typeof namespace !== "string") throw new MalformedObjectError(view, "namespace is not a string", name);
  const key = `${namespace}/${name}`;
  if (typeof uid !== "string" || uid === "") throw new MalformedObjectError(view, "no uid", key);
  if (typeof resourceVersion !== "string" || !isResourceVersion(resourceVersion))
    throw new MalformedObjectError(view, "resourceVersion is not a decimal integer", key);
  if (!Array.isArray(ownerReferences) || !ownerReferences.every(isObject))
    throw new MalformedObjectError(view, "ownerReferences is not a list of objects", key);
  const digests: Record<string, string> = {};
  for (const [annotation, digest] of entriesOf(metadata["annotationDigests"])) if (isAnnotationDigest(digest)) digests[annotation] = digest;
  for (const [annotation, value] of entriesOf(metadata["annotations"]))
    if (typeof value === "string" && annotation !== LAST_APPLIED) digests[annotation] = digester.annotation(annotation, value);
  const kept = KEPT.flatMap((field) => (metadata[field] === undefined ? [] : [[field, metadata[field]] as const]));
  return {
    namespace,
    name,
    uid,
    resourceVersion,
    ...Object.fromEntries(kept),
    ...(Object.keys(digests).length > 0 && { annotationDigests: digests }),
  } as unknown as CachedMeta; // identity and references are checked; the other fields are as the API server sent them
}
