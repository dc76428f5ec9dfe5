/**
 * How rows stand in Redis. Version row (`v`) and slice entry (`s`) of one object change in the same step:
 *
 *     v:  rv 0x1F uid 0x1F owner 0x1F flags
 *     s:  flags 0x1F rv 0x1F uid 0x1F object as JSON, less what the key and the row already say
 *
 * flags: `g` = gone. Scripts set and keep it; a writer never writes it.
 */
import type { Cached, CachedPod, CachedReplicaSet } from "../../api/cached.ts";
import type { OwnerId } from "../../api/owner-id.ts";
import { splitKey } from "../../api/resources.ts";
import type { CachedResource, ObjectKey } from "../../api/resources.ts";
import type { ItemChange, Row } from "../../ports/store.ts";

export const US = "\x1f";

/** What a put writes to `v`; it is also what `expected` is compared with. */
export function rowText(row: { readonly rv: string; readonly uid: string; readonly owner?: string }): string {
  return `${row.rv}${US}${row.uid}${US}${row.owner ?? ""}${US}`;
}

export function entryText(resource: CachedResource, item: ItemChange): string {
  return `${US}${item.rv}${US}${item.uid}${US}${objectText(resource, item)}`;
}

/** A row of `v`, without object. */
export function parseRow(key: ObjectKey, text: string): Omit<Row, "object"> {
  const [rv = "", uid = "", owner = "", flags = ""] = text.split(US);
  return { key, uid, rv, ...(owner !== "" && { owner }), gone: flags === "g" };
}

/** An entry of the slice of `owner` (undefined: the orphans of the key's namespace). */
export function parseEntry(resource: CachedResource, key: ObjectKey, owner: OwnerId | undefined, text: string): Row {
  const afterFlags = text.indexOf(US);
  const afterRv = text.indexOf(US, afterFlags + 1);
  const afterUid = text.indexOf(US, afterRv + 1);
  const rv = text.slice(afterFlags + 1, afterRv);
  const uid = text.slice(afterRv + 1, afterUid);
  const object = parseObject(resource, key, uid, rv, text.slice(afterUid + 1));
  return { key, uid, rv, ...(owner !== undefined && { owner }), gone: afterFlags > 0, object };
}

/** Entries of a whole slice in the order of their keys: whoever reads twice reads the same. */
export function parseSlice(
  resource: CachedResource,
  owner: OwnerId | undefined,
  pairs: readonly (readonly [key: string, entry: string])[],
): readonly Row[] {
  return pairs.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([key, entry]) => parseEntry(resource, key, owner, entry));
}

/** Leaves out namespace, name, uid and resourceVersion: a third of a small pod. */
function objectText(resource: CachedResource, item: ItemChange): string {
  const { object } = item;
  // undefined is what JSON leaves out; a copy of the same shape is cheaper than one without the fields.
  const leftOut = { namespace: undefined, name: undefined, uid: undefined, resourceVersion: undefined };
  if (resource === "pods") {
    const pod = object as CachedPod; // `resource` says so
    return JSON.stringify(says(item, pod) ? { ...pod, ...leftOut } : pod);
  }
  const other = object as CachedReplicaSet; // all others have metadata
  return JSON.stringify(says(item, other.metadata) ? { ...other, metadata: { ...other.metadata, ...leftOut } } : other);
}

function says(
  item: ItemChange,
  object: { readonly namespace: string; readonly name: string; readonly uid: string; readonly resourceVersion: string },
): boolean {
  const { key } = item;
  const slash = object.namespace.length;
  return (
    object.uid === item.uid &&
    object.resourceVersion === item.rv &&
    key.length === slash + 1 + object.name.length &&
    key.startsWith(object.namespace) &&
    key[slash] === "/" &&
    key.endsWith(object.name)
  );
}

function parseObject(resource: CachedResource, key: ObjectKey, uid: string, rv: string, text: string): Cached {
  const { namespace, name } = splitKey(key);
  // What stands here was written by objectText, by this version of the projection: the gate sees to that.
  if (resource === "pods") {
    return { namespace, name, uid, resourceVersion: rv, ...(JSON.parse(text) as Partial<CachedPod>) };
  }
  const rest = JSON.parse(text) as CachedReplicaSet;
  return { ...rest, metadata: { namespace, name, uid, resourceVersion: rv, ...(rest.metadata as Partial<CachedReplicaSet["metadata"]>) } };
}
