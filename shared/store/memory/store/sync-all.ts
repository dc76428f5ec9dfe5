/** SyncAll (informer §15): enqueues every key of a primary inside once after a list, because events may have been missed before. */
import type { ControllerName } from "@deltaloop/kube/objects";
import type { GuardState } from "../../ports/store.ts";
import { primariesInside, queueOf } from "./data.ts";
import type { EpochData } from "./data.ts";
import { gateReason } from "./gate.ts";
import type { Ring } from "./ring.ts";
import type { MemoryStoreOptions } from "./store-time.ts";
import { dirtyKeys } from "./work-queue.ts";

/** Maximum time over which keys become due, one per millisecond. */
const SPREAD_MS_MAX = 30_000;
/** Doorbells that one SyncAll rings; the sweeper rings the rest. */
const BELLS_MAX = 500;

/** The part of the Store's memory that this reads. */
export interface Synced {
  readonly epoch: EpochData;
  readonly primary: string;
  readonly guard: GuardState;
  readonly openedMs: readonly number[];
}

/** Enqueues every key of `controllers`, and rings all dirty keys of the controllers whose gate is open. */
export function syncAll(
  store: Synced,
  controllers: readonly ControllerName[],
  ring: Ring,
  options: MemoryStoreOptions,
  nowMs: number,
): void {
  const { epoch } = store;
  let bellsLeft = BELLS_MAX;
  for (const controller of controllers) {
    const queue = queueOf(epoch, controller);
    const keys = primariesInside(queue);
    const spreadMs = Math.min(SPREAD_MS_MAX, keys.length);
    for (const [index, key] of keys.entries()) {
      const atMs = nowMs + Math.floor((index * spreadMs) / keys.length);
      queue.ready.set(key, Math.min(queue.ready.get(key) ?? atMs, atMs)); // a doorbell counts as sent only below, if the gate is open
    }
    if (gateReason(store, controller, options) !== undefined) continue;
    for (const key of dirtyKeys(queue).slice(0, bellsLeft)) {
      queue.bells.set(key, { rungAtMs: nowMs, dueMs: queue.ready.get(key) ?? nowMs, rings: 0 });
      ring.note(controller, key);
      bellsLeft--;
    }
  }
}
