/** What the items of a pack say of themselves, and how many of them one call of the Store may hold. What came is not yet known to be items. */
import type { Cached, CachedResource } from "@deltaloop/kube/objects";
import { ownerOfCached, isResourceVersion, maxResourceVersion, objectKey, splitKey } from "@deltaloop/kube/objects";
import type { EnvelopeItem } from "./envelope.ts";

/** Objects of 900 KiB and more, read at once. */
const LIVE_PER_CALL_MAX = 4;

/** Why the item cannot be applied (AP1). */
export function faultOf(item: EnvelopeItem): string | undefined {
  if (typeof item !== "object" || item === null) return "not an item";
  if (typeof item.uid !== "string" || item.uid === "") return "no uid";
  if (typeof item.rv !== "string" || !isResourceVersion(item.rv)) return `resourceVersion ${JSON.stringify(item.rv)} is no decimal integer`;
  if (!["A", "M", "D"].includes(item.t)) return `type ${JSON.stringify(item.t)}`;
  try {
    splitKey(item.key);
  } catch {
    return `key ${JSON.stringify(item.key)} is not namespace/name`;
  }
  return undefined;
}

/** `key uid`, as an item has them. */
export function identityOf(object: Cached): string {
  const { namespace, name, uid } = "metadata" in object ? object.metadata : object;
  return `${objectKey(namespace, name)} ${uid}`;
}

/** What is cached says whom a deletion concerns, too: one whose object is none is a deletion all the same. */
export function readable(resource: CachedResource, object: Cached | undefined): Cached | undefined {
  try {
    if (object !== undefined) ownerOfCached(resource, object);
    return object;
  } catch {
    return undefined;
  }
}

/** As many items as one call may hold: at most `size`, no key twice, and few whose objects are read live. */
export function callLength(items: readonly (EnvelopeItem | null)[], size: number): number {
  const keys = new Set<unknown>();
  let [length, live] = [0, 0];
  for (const item of items) {
    const { key, tooBig } = item ?? {};
    if (tooBig) live++;
    if (length >= size || live > LIVE_PER_CALL_MAX || (key !== undefined && keys.has(key))) break;
    keys.add(key);
    length++;
  }
  return length;
}

/** Also of items that are set aside: nothing else will come for them (AP1). */
export function highestVersion(items: readonly (EnvelopeItem | null)[]): string {
  return items.reduce((highest, item) => {
    const rv: unknown = item?.rv;
    return typeof rv === "string" && isResourceVersion(rv) ? maxResourceVersion(highest, rv) : highest;
  }, "0");
}
