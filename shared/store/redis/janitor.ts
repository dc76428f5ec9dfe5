/**
 * Removes keys of epochs that are no longer current (informer §11.7). No index lists their keys, so it scans all keys of the node in
 * small steps.
 *
 * JA1 only keys that begin with this deployment's and this cluster's prefix and an epoch id are removed.
 * JA2 keys of the current epoch are never removed: the removing step compares the epoch.
 * JA3 an epoch's keys stay until the epoch was seen as not current for EPOCH_GRACE_MS, because earlier runs may still read them.
 * JA4 while the Store is full, this time is EPOCH_GRACE_FULL_MS, and one call scans as many keys as CALLS_FULL normal calls, because writes
 *     fail for lack of memory.
 */
import { EPOCH_GRACE_FULL_MS, EPOCH_GRACE_MS } from "@deltaloop/base";
import type { EpochStore } from "../ports/store.ts";
import { asList, asNumber, asText } from "./connection.ts";
import type { Context } from "./context.ts";

/** Number of keys that one call scans, and so the maximum that it removes. SCAN may return a few more. */
const KEYS_PER_CALL = 1_000;
/** Calls per pass over a full Store: half a second of server time if all keys match. */
const CALLS_FULL = 100;

export function createJanitor(context: Context): Pick<EpochStore, "forgetEpochs"> {
  const { names } = context;
  /** When each epoch was first seen as not current. An epoch without keys in a whole scan is dropped. */
  const since = new Map<string, number>();
  let met = new Set<string>();
  let cursor = "0";
  const step = async (epoch: string, graceMs: number): Promise<number> => {
    const scan = context.keys("scan", {}).call(epoch, { cursor, pattern: `${literal(names.prefix)}*`, batch: String(KEYS_PER_CALL) });
    const [now, next, found] = asList(await context.run(scan));
    if (now === "otherEpoch") {
      cursor = "0";
      return 0;
    }
    const nowMs = asNumber(now);
    const over: string[] = [];
    for (const key of asList(found).map(asText)) {
      const of = names.epochOf(key);
      if (of === undefined || of === epoch) continue;
      met.add(of);
      const sinceMs = since.get(of) ?? nowMs;
      since.set(of, sinceMs);
      if (nowMs - sinceMs >= graceMs) over.push(key);
    }
    cursor = asText(next);
    if (cursor === "0") {
      for (const each of since.keys()) if (!met.has(each)) since.delete(each);
      met = new Set();
    }
    return over.length === 0 ? 0 : asNumber(await context.run(context.keys("forget", { stale: over }).call(epoch, {})));
  };
  return {
    async forgetEpochs(epoch, full = false) {
      if (!full) return await step(epoch, EPOCH_GRACE_MS);
      let removed = 0;
      for (let call = 0; call < CALLS_FULL; call++) {
        removed += await step(epoch, EPOCH_GRACE_FULL_MS);
        if (cursor === "0") break;
      }
      return removed;
    },
  };
}

/** Escapes text for a pattern of SCAN. */
function literal(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, (special) => `\\${special}`);
}
