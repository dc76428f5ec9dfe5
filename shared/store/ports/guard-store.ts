/**
 * Whether another controller writes our objects, and whether a user has resumed (informer §11.9). Per deployment and cluster.
 *
 * GD1 from the step that accepts a report, `take` and `renew` answer `stopped`, gates are closed and `sweep` returns no doorbells. Keys stay
 *     dirty; deltas are still applied.
 * GD2 it is outside epochs: no change of a cache affects it.
 * GD3 a report of a write that is not newer than the forgiven ones has no effect.
 * GD4 of several reports the newest write is stored, with the start time of the first.
 * GD5 `resume` removes exactly what its caller has seen; the forgiven time only grows.
 * GD6 a stop applies regardless of its writer; a text that fails its MAC forgives nothing.
 * GD7 a caller that ignores stops (shadow; DELTALOOP_GUARD=off) is not stopped.
 */
import type { CachedResource, ObjectKey } from "@deltaloop/kube/objects";

/** Allowed clock skew: a later time counts as now, or as forged. */
export const SKEW_MS = 5_000;

/** A status write by another controller. */
export interface ForeignWrite {
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  readonly manager: string;
  /** Time from the API server, in whole seconds. */
  readonly atMs: number;
}

export type Stop =
  /** `sinceMs`: by the clock of the watcher that first saw the write. */
  | { readonly kind: "seen"; readonly write: ForeignWrite; readonly sinceMs: number }
  /** The text fails its MAC. */
  | { readonly kind: "unbelieved" };

export interface GuardState {
  /** Absent: not stopped. */
  readonly stop?: Stop;
  /** Writes up to this time are forgiven; 0: none. */
  readonly forgivenMs: number;
  /** Version of exactly this state. */
  readonly version: string;
}

export type Reported =
  /** Stopped, by this report or an earlier one. */
  { readonly kind: "stopped" } | { readonly kind: "forgiven"; readonly forgivenMs: number };

export interface GuardStore {
  guard(): Promise<GuardState>;
  /** `nowMs`: by the caller's clock. */
  reportForeignWrite(write: ForeignWrite, nowMs: number): Promise<Reported>;
  /** `version`: of the state that the caller has seen. `changed`: the state differs; read it again. */
  resume(request: { readonly version: string; readonly forgivenMs: number }): Promise<"resumed" | "changed">;
}

/** The stop after an unforgiven report, or undefined if it does not change (GD4). */
export function stopAfter({ stop }: Pick<GuardState, "stop">, write: ForeignWrite, nowMs: number): Stop | undefined {
  if (stop?.kind !== "seen") return { kind: "seen", write, sinceMs: nowMs };
  return write.atMs > stop.write.atMs ? { ...stop, write } : undefined;
}

/** Describes a stop for users. */
export function describeStop(stop: Stop): string {
  if (stop.kind === "unbelieved") return "stopped by a report that is signed with none of our keys";
  return `stopped since ${new Date(stop.sinceMs).toISOString()}: ${describeForeignWrite(stop.write)}`;
}

export function describeForeignWrite({ resource, key, manager, atMs }: ForeignWrite): string {
  return `${manager} wrote the status of ${resource} ${key} at ${new Date(atMs).toISOString()}`;
}
