/** Doorbells that one call of the Store returns to its caller: one per key, with the key's final due time. */
import type { ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Doorbell } from "../../ports/doorbells.ts";
import { queueOf } from "./data.ts";
import type { EpochData } from "./data.ts";

export interface Ring {
  note(controller: ControllerName, key: ObjectKey): void;
  bells(): readonly Doorbell[];
}

export function createRing(epoch: EpochData, nowMs: number): Ring {
  const noted = new Map(epoch.catalog.controllers.map((controller) => [controller, new Set<ObjectKey>()]));
  return {
    note: (controller, key) => void noted.get(controller)?.add(key),
    bells: () =>
      [...noted].flatMap(([controller, keys]) =>
        [...keys].map((key) => doorbell(epoch, controller, key, queueOf(epoch, controller).ready.get(key) ?? nowMs, nowMs)),
      ),
  };
}

/** The doorbell for `key`, for the time when the key is ready. */
export function doorbell(epoch: EpochData, controller: ControllerName, key: ObjectKey, atMs: number, nowMs: number): Doorbell {
  const primary = queueOf(epoch, controller).primaries.get(key);
  return {
    controller,
    key,
    ...(primary && { uid: primary.uid }),
    ...(primary?.owner !== undefined && { owner: primary.owner }),
    epoch: epoch.record.epoch,
    delayMs: Math.max(0, atMs - nowMs),
  };
}
