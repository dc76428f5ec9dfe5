import { CALLS_AT_ONCE_MAX } from "@deltaloop/kube/client";

/**
 * Calls `act` for each item in order, with at most one call per client connection in flight. Starts no more calls once `mayStart`
 * returns false, so that every call that was sent has time to complete. Returns one result per item, undefined for items
 * that were not started. `act` must not throw.
 *
 *     500 deletes of 400 ms each: 32 at a time, 6.3 s in total
 */
export async function inTurn<T, R extends object>(
  items: readonly T[],
  mayStart: () => boolean,
  act: (item: T) => Promise<R>,
): Promise<readonly (R | undefined)[]> {
  const results: (R | undefined)[] = Array.from({ length: items.length });
  const left = items.entries();
  const work = async (): Promise<void> => {
    for (const [i, item] of left) {
      if (!mayStart()) return;
      results[i] = await act(item);
    }
  };
  await Promise.all(Array.from({ length: Math.min(items.length, CALLS_AT_ONCE_MAX) }, work));
  return results;
}
