/**
 * Whether another controller is at work on our objects, and whether a person has said that we go on (informer §11.9). Of one deployment at
 * one cluster.
 *
 * GD1 from the step on that takes a report, `take` answers `stopped` and `renew` does, gates are shut and `sweep` rings nobody. Keys stay
 *     dirty, deltas are applied as ever.
 * GD2 it stands outside of epochs: nothing that becomes of a cache changes it.
 * GD3 a report of a write that is not newer than what was forgiven changes nothing.
 * GD4 of several reports the newest write stands, and since when it is stopped is the first one's.
 * GD5 `resume` takes away what its caller has seen and nothing else; what is forgiven grows only.
 * GD6 a stop is a stop, whoever wrote it; what fails its MAC forgives nothing.
 * GD7 who ignores stops (shadow; DELTALOOP_GUARD=off) is not stopped.
 */
import type { CachedResource, ObjectKey } from "@deltaloop/kube/objects";

/** By which clocks may differ: what is later than now by more is taken as of now, or for made up. */
export const SKEW_MS = 5_000;

/** A status that somebody wrote who is not ours. */
export interface ForeignWrite {
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  readonly manager: string;
  /** By the API server, in whole seconds. */
  readonly atMs: number;
}

export type Stop =
  /** `sinceMs`: by the clock of the watcher that saw it first. */
  | { readonly kind: "seen"; readonly write: ForeignWrite; readonly sinceMs: number }
  /** Somebody wrote it who has no key of ours. */
  | { readonly kind: "unbelieved" };

export interface GuardState {
  /** Absent: nothing is stopped. */
  readonly stop?: Stop;
  /** Writes up to this time are forgiven; 0: none. */
  readonly forgivenMs: number;
  /** Of just this state. */
  readonly version: string;
}

export type Reported =
  /** It stands, by this report or by one before. */
  { readonly kind: "stopped" } | { readonly kind: "forgiven"; readonly forgivenMs: number };

export interface GuardStore {
  guard(): Promise<GuardState>;
  /** `nowMs`: by the caller's clock. */
  reportForeignWrite(write: ForeignWrite, nowMs: number): Promise<Reported>;
  /** `version`: of the state that the caller has seen. `changed`: it is another one by now, look again. */
  resume(request: { readonly version: string; readonly forgivenMs: number }): Promise<"resumed" | "changed">;
}

/** What a report that is not forgiven makes of a stop: a new one, or nothing (GD4). */
export function stopAfter({ stop }: Pick<GuardState, "stop">, write: ForeignWrite, nowMs: number): Stop | undefined {
  if (stop?.kind !== "seen") return { kind: "seen", write, sinceMs: nowMs };
  return write.atMs > stop.write.atMs ? { ...stop, write } : undefined;
}

/** In words for people. */
export function describeStop(stop: Stop): string {
  if (stop.kind === "unbelieved") return "stopped by somebody who holds none of our keys (its MAC fails)";
  return `stopped since ${new Date(stop.sinceMs).toISOString()}: ${describeForeignWrite(stop.write)}`;
}

export function describeForeignWrite({ resource, key, manager, atMs }: ForeignWrite): string {
  return `${manager} wrote the status of ${resource} ${key} at ${new Date(atMs).toISOString()}`;
}
