/**
 * What is left of epochs that are no longer current (informer §11.7). Nothing lists their keys, and a damaged one could not be believed,
 * so they are found by walking through all keys of the node, some in each call.
 *
 * JA1 only keys are taken away that begin with this deployment's and this cluster's prefix, followed by the id of an epoch.
 * JA2 never one of the current epoch: the step that takes them away compares.
 * JA3 an epoch's keys stay until it has been seen not to be current for EPOCH_GRACE_MS: what was begun under it may still read.
 * JA4 in a full store for EPOCH_GRACE_FULL_MS, and one call walks as far as CALLS_FULL of others: nobody can work until there is room.
 */
import { EPOCH_GRACE_FULL_MS, EPOCH_GRACE_MS } from "@deltaloop/base";
import type { EpochStore } from "../ports/store.ts";
import { asList, asNumber, asText } from "./connection.ts";
import type { Context } from "./context.ts";

/** Keys that one call looks at, and so takes away at most (a few more where Redis' buckets hold several). */
const KEYS_PER_CALL = 1_000;
/** Half a second of a server's time, if all is there. */
const CALLS_FULL = 100;

export function createJanitor(context: Context): Pick<EpochStore, "forgetEpochs"> {
  const { names } = context;
  /** Since when an epoch has been seen not to be current. One that a whole walk has not met is forgotten. */
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

/** In a pattern of SCAN. */
function literal(text: string): string {
  return text.replace(/[\\*?[\]^-]/g, (special) => `\\${special}`);
}
