/**
 * Sweeps of a cluster whose deployment serves many: the time of its earliest queued key replaces reading its queues every 2 s.
 *
 * DU1 work arises from messages, from the watcher's own adds, and from queued keys and runs. So once no message was sent for ACTIVE_MS, no run
 *     is in progress and no key is due, nothing can be swept before the earliest key is due.
 * DU2 that time is a hint, which a key from elsewhere (`deltaloop resume`, a message that is applied late) does not change. So the queues are
 *     read at least every SCAN_MS.
 */
import type { Clock } from "@deltaloop/base";
import type { DeltaQueue, Store } from "@deltaloop/store/ports";

interface SweptPorts {
  readonly store: Store;
  readonly queue: DeltaQueue;
  readonly clock: Pick<Clock, "now">;
}

/** Longer than a message takes to be applied: an older one that is missing closes the gate, and its lane is sent again. */
export const ACTIVE_MS = 60_000;
export const SCAN_MS = 10 * 60_000;

/** Wraps the ports of one cluster's watcher. */
export function sweepWhenDue<P extends SweptPorts>(ports: P): P {
  const { store, queue, clock } = ports;
  let activeMs = clock.now();
  let dueMs = 0;
  let sweptMs = 0;
  const active = (): void => void (activeMs = clock.now());
  return {
    ...ports,
    queue: {
      send(entries) {
        active();
        return queue.send(entries);
      },
    } satisfies DeltaQueue,
    store: {
      ...store,
      async resync(...args) {
        active();
        return await store.resync(...args);
      },
      async add(...args) {
        active();
        return await store.add(...args);
      },
      async openFence(...args) {
        active(); // an earlier leader may have sent messages
        return await store.openFence(...args);
      },
      async sweep(epoch) {
        const now = clock.now();
        const isActive = now - activeMs < ACTIVE_MS;
        if (!isActive && now < dueMs && now - sweptMs < SCAN_MS) return [];
        sweptMs = now;
        const bells = await store.sweep(epoch);
        if (!isActive) dueMs = bells.length > 0 ? 0 : now + ((await store.dueIn(epoch)) ?? SCAN_MS);
        return bells;
      },
    } satisfies Store,
  };
}
