/** Doorbells that one call of the Store returns to its caller: one per key, with its final time. */
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { Controller, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "../../ports/doorbells.ts";
import type { EpochData } from "./data.ts";

export interface Ring {
  note(controller: Controller, key: ObjectKey): void;
  bells(): readonly Doorbell[];
}

export function createRing(epoch: EpochData, nowMs: number): Ring {
  const noted = tableOf(CONTROLLERS, () => new Set<ObjectKey>());
  return {
    note: (controller, key) => void noted[controller].add(key),
    bells: () =>
      CONTROLLERS.flatMap((controller) =>
        [...noted[controller]].map((key) => doorbell(epoch, controller, key, epoch.queues[controller].ready.get(key) ?? nowMs, nowMs)),
      ),
  };
}

/** The doorbell for `key`, for the time when the key is ready. */
export function doorbell(epoch: EpochData, controller: Controller, key: ObjectKey, atMs: number, nowMs: number): Doorbell {
  const primary = epoch.queues[controller].primaries.get(key);
  return {
    controller,
    key,
    ...(primary && { uid: primary.uid }),
    ...(primary?.owner !== undefined && { owner: primary.owner }),
    epoch: epoch.record.epoch,
    delayMs: Math.max(0, atMs - nowMs),
  };
}
