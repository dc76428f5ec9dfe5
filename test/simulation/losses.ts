/** Losses of a running Store (informer §11.7), applied to the memory Store between two of its steps. */
import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import type { EpochData, MemoryData } from "../../shared/store/memory/store/data.ts";
import type { Random } from "../../shared/base/random.ts";
import { DISTURBANCES } from "./disturbances.ts";

/**
 * `flush` deletes everything, `damage` half of the keys. `restore`: the Store returns to an earlier state on another primary, as after a
 * restart from a snapshot or a failover. `rewind`: the Store returns to an earlier state on a primary that looks unchanged, as with a
 * service that does not report a failover.
 */
export const LOSSES = ["flush", "damage", "restore", "rewind"] as const;
export type Loss = (typeof LOSSES)[number];

/**
 * Beside those of disturbances.ts: `clock`: the clock of the Store's server repeatedly jumps five minutes forward or back. `clone`: a second cluster, second-cluster.ts.
 * `etcd`: the API server repeatedly returns to an earlier state, Leases and resourceVersions included.
 */
export const CHOSEN_FAULTS = [...LOSSES, "clock", "clone", "etcd", ...DISTURBANCES] as const;
export type ChosenFault = (typeof CHOSEN_FAULTS)[number];

/** Returns true in one of eight runs, whatever the run's other faults are. */
export function drawsClock(random: Random): boolean {
  return random.next() < 1 / 8;
}

/** Draws a loss in a quarter of all runs, whatever the run's other faults are. */
export function drawLoss(random: Random): Loss | undefined {
  return LOSSES[Math.floor(random.next() * LOSSES.length * 4)];
}

export function flush(data: MemoryData): void {
  data.epoch = undefined;
  data.tallies.clear();
}

/** @returns a function that restores the current state of the Store */
export function snapshot(data: MemoryData): () => void {
  const [epoch, tallies] = [copyOf(data.epoch), [...data.tallies]];
  return () => {
    data.epoch = copyOf(epoch);
    data.tallies.clear();
    for (const [place, tally] of tallies) data.tallies.set(place, tally);
  };
}

/** Deletes half of the keys, which in Redis always includes some of the many keys `m` and `l`. Here it always includes `m:pods`. */
export function damage(data: MemoryData, random: Random): void {
  const { epoch } = data;
  if (!epoch) return;
  const half = (map: Map<unknown, unknown>): void => {
    for (const key of [...map.keys()]) if (random.next() < 0.5) map.delete(key);
  };
  const whole = (map: { clear(): void }): void => {
    if (random.next() < 0.5) map.clear();
  };
  half(epoch.resources);
  whole(data.tallies);
  epoch.resources.delete("pods");
  half(epoch.intents);
  for (const { slices, lanes, counts } of epoch.resources.values()) {
    half(slices);
    whole(counts);
    for (const { rows, tombstones, holes } of lanes) for (const each of [rows, tombstones, holes]) whole(each);
  }
  for (const controller of CONTROLLERS) {
    const { ready, runs, failures, primaries, bells, endedAtMs }: EpochData["queues"][typeof controller] = epoch.queues[controller];
    for (const each of [ready, runs, failures, primaries, bells, endedAtMs]) whole(each);
  }
}

/** A deep copy; frozen values never change and are shared. */
function copyOf<T>(value: T): T {
  return copied(value) as T; // has the same type
}

function copied(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (value instanceof Map) return new Map([...value].map(([key, each]) => [key, copied(each)]));
  if (value instanceof Set) return new Set(value);
  if (Array.isArray(value)) return value.map(copied);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, copied(each)]));
}
