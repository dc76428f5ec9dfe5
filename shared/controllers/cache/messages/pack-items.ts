/** Validates the items of a message, and limits how many go to the Store in one call. */
import type { Cached, View } from "@deltaloop/kube/objects";
import { isResourceVersion, maxResourceVersion, objectKey, splitKey } from "@deltaloop/kube/objects";
import type { EnvelopeItem } from "./envelope.ts";

/** Objects of 900 KiB and more that are read live per call. */
const LIVE_PER_CALL_MAX = 4;

/** Returns why the item cannot be applied (AP1), or undefined. */
export function faultOf(item: EnvelopeItem): string | undefined {
  if (typeof item !== "object" || item === null) return "not an item";
  if (typeof item.uid !== "string" || item.uid === "") return "no uid";
  if (typeof item.rv !== "string" || !isResourceVersion(item.rv))
    return `resourceVersion ${JSON.stringify(item.rv)} is not a decimal integer`;
  if (!["A", "M", "D"].includes(item.t)) return `type ${JSON.stringify(item.t)}`;
  try {
    splitKey(item.key);
  } catch {
    return `key ${JSON.stringify(item.key)} is not namespace/name`;
  }
  return undefined;
}

/** `key uid` of an object, as in an item. */
export function identityOf(object: Cached<View>): string {
  const { namespace, name, uid } = "metadata" in object ? object.metadata : object;
  return `${objectKey(namespace, name)} ${uid}`;
}

/** The number of items for the next call: at most `size`, each key once, and at most LIVE_PER_CALL_MAX live reads. */
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

/** The highest version, quarantined items included, because no later message contains them (AP1). */
export function highestVersion(items: readonly (EnvelopeItem | null)[]): string {
  return items.reduce((highest, item) => {
    const rv: unknown = item?.rv;
    return typeof rv === "string" && isResourceVersion(rv) ? maxResourceVersion(highest, rv) : highest;
  }, "0");
}
