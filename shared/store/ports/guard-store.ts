/**
 * The stored part of the guard: the stops (namespaces, or everything, in which another controller writes the same objects) and, for
 * each namespace, the time up to which `resume` has accepted such writes (informer §11.9). Per deployment and cluster. Watcher's part:
 * cache/watcher/foreign-write-guard.ts.
 *
 * GD1 from the step that accepts a report, `take` and `renew` of its namespace's keys return `stopped`, and `sweep` returns no doorbells
 *     for them; if everything is stopped, gates are closed too. Keys stay dirty; deltas are still applied.
 * GD2 it is outside epochs: no change of a cache affects it.
 * GD3 a report of a write that is not newer than the accepted time has no effect.
 * GD4 of several reports the newest write is stored, with the start time of the first.
 * GD5 `resume` removes exactly the stops that its caller has read; the accepted time only grows.
 * GD6 any stored stop applies, even one with an invalid MAC; a resume with an invalid MAC accepts no write.
 * GD7 stops do not apply to a caller with `ignoresStop` (shadow mode; DELTALOOP_GUARD=off).
 * GD8 at most STOPS_MAX namespaces are stopped; one more stops everything. For an older build, which knows no stops of namespaces, every
 *     stop stops everything.
 */
import { splitKey } from "@deltaloop/kube/objects";
import type { CachedResource, ObjectKey } from "@deltaloop/kube/objects";

/** Allowed clock skew. A write time further in the future counts as now (FG6). */
export const SKEW_MS = 5_000;
export const STOPS_MAX = 1_000;

/** A status write by another controller. */
export interface ForeignWrite {
  readonly resource: CachedResource;
  readonly key: ObjectKey;
  readonly manager: string;
  /** Time from the API server, in whole seconds. */
  readonly atMs: number;
}

export type Stop =
  /**
   * `sinceMs`: when a watcher first reported a write, by its clock. `isOverMax`: everything is stopped, because there were writes in more
   * than STOPS_MAX namespaces.
   */
  | { readonly kind: "seen"; readonly write: ForeignWrite; readonly sinceMs: number; readonly isOverMax?: true }
  /** The stored text has an invalid MAC. */
  | { readonly kind: "unbelieved" };

/** The stop of everything, or of one namespace. */
export interface StopState {
  /** Absent if not stopped. */
  readonly stop?: Stop;
  /** Writes up to this time are accepted; 0: none. */
  readonly acceptedMs: number;
}

export interface GuardState extends StopState {
  /** Namespaces that are stopped or were resumed individually. */
  readonly namespaces: ReadonlyMap<string, StopState>;
}

/** The newest writes. */
export interface ForeignWrites {
  /** A write of an object that no tenant can write; stops everything. */
  readonly everything?: ForeignWrite;
  /** One write per namespace. */
  readonly namespaces: readonly ForeignWrite[];
}

export interface ResumeRequest {
  /** The namespace to resume; absent for everything. */
  readonly namespace?: string;
  /** The state that the caller has read. */
  readonly seen: GuardState;
  readonly acceptedMs: number;
}

export interface GuardStore {
  guard(): Promise<GuardState>;
  /** Reports writes and returns the new state. `nowMs` is the time by the caller's clock. */
  reportForeignWrites(writes: ForeignWrites, nowMs: number): Promise<GuardState>;
  /** Removes stops. `changed` means that the state has changed since the caller read it and must be read again. */
  resume(request: ResumeRequest): Promise<"resumed" | "changed">;
}

export const NOTHING_STOPPED: GuardState = { acceptedMs: 0, namespaces: new Map() };

/** The time up to which writes in a namespace are accepted. */
function acceptedUntil({ acceptedMs, namespaces }: GuardState, namespace: string): number {
  return Math.max(acceptedMs, namespaces.get(namespace)?.acceptedMs ?? 0);
}

/** The namespaces that are stopped individually; none if everything is stopped. */
export function stoppedNamespaces({ stop, namespaces }: GuardState): ReadonlyMap<string, Stop> {
  if (stop) return new Map();
  return new Map([...namespaces].flatMap(([namespace, { stop: own }]) => (own ? [[namespace, own] as const] : [])));
}

/** Returns the state after a report (GD3, GD4, GD8). */
export function afterReport(state: GuardState, { everything, namespaces: writes }: ForeignWrites, nowMs: number): GuardState {
  if (everything && everything.atMs > state.acceptedMs) return { ...state, stop: stopAfter(state.stop, everything, nowMs) };
  if (state.stop) return state; // this stop includes every namespace, and writes that are not accepted are reported again
  const namespaces = new Map(state.namespaces);
  let left = STOPS_MAX - stoppedNamespaces(state).size;
  for (const write of writes) {
    const { namespace } = splitKey(write.key);
    const own = namespaces.get(namespace) ?? { acceptedMs: 0 };
    if (write.atMs <= acceptedUntil(state, namespace)) continue;
    if (!own.stop && left-- <= 0) return { ...state, stop: { kind: "seen", write, sinceMs: nowMs, isOverMax: true } };
    namespaces.set(namespace, { ...own, stop: stopAfter(own.stop, write, nowMs) });
  }
  return { ...state, namespaces };
}

/** Returns the state after a resume (GD5); undefined if it has changed since the caller read it. */
export function afterResume(state: GuardState, { namespace, seen, acceptedMs }: ResumeRequest): GuardState | undefined {
  if (namespace === undefined) {
    if (!isSame(state, seen)) return undefined;
    const all = Math.max(state.acceptedMs, acceptedMs);
    return { acceptedMs: all, namespaces: newestAccepted(state.namespaces, all) };
  }
  const own = state.namespaces.get(namespace);
  if (!isSame({ ...state, namespaces: mapOf(namespace, own) }, { ...seen, namespaces: mapOf(namespace, seen.namespaces.get(namespace)) }))
    return undefined;
  const accepted = { acceptedMs: Math.max(own?.acceptedMs ?? 0, acceptedMs) };
  const stopped = [...state.namespaces].filter(([name, { stop }]) => stop && name !== namespace);
  const resumed = newestAccepted(new Map([...state.namespaces, [namespace, accepted]]), state.acceptedMs);
  return { ...state, namespaces: new Map([...resumed, ...stopped]) };
}

/** Returns the namespaces whose accepted time is later than that of everything, at most STOPS_MAX. A dropped entry only accepts less. */
function newestAccepted(namespaces: GuardState["namespaces"], allMs: number): GuardState["namespaces"] {
  const longer = [...namespaces].filter(([, { acceptedMs }]) => acceptedMs > allMs);
  const newest = longer.toSorted(([, a], [, b]) => b.acceptedMs - a.acceptedMs).slice(0, STOPS_MAX);
  return new Map(newest.map(([name, { acceptedMs }]) => [name, { acceptedMs }]));
}

function mapOf(namespace: string, own: StopState | undefined): GuardState["namespaces"] {
  return new Map(own ? [[namespace, own]] : []);
}

function isSame(a: GuardState, b: GuardState): boolean {
  const text = ({ stop, acceptedMs, namespaces }: GuardState): string =>
    JSON.stringify([partsOf({ ...(stop && { stop }), acceptedMs }), [...namespaces].map(([name, own]) => [name, ...partsOf(own)]).sort()]);
  return text(a) === text(b);
}

function partsOf({ stop, acceptedMs }: StopState): readonly unknown[] {
  if (stop?.kind !== "seen") return [stop?.kind ?? "", acceptedMs];
  const { resource, key, manager, atMs } = stop.write;
  return [resource, key, manager, atMs, stop.sinceMs, acceptedMs];
}

/** The stop after a report of a write that is not accepted (GD4). */
function stopAfter(stop: Stop | undefined, write: ForeignWrite, nowMs: number): Stop {
  if (stop?.kind !== "seen") return { kind: "seen", write, sinceMs: nowMs };
  return write.atMs > stop.write.atMs ? { ...stop, write } : stop;
}

/** Describes a stop for users. */
export function describeStop(stop: Stop): string {
  if (stop.kind === "unbelieved") return "stopped by a report without a valid signature";
  const since = `stopped since ${new Date(stop.sinceMs).toISOString()}: `;
  const why = stop.isOverMax ? `other controllers wrote in more than ${STOPS_MAX} namespaces; the last: ` : "";
  return since + why + describeForeignWrite(stop.write);
}

export function describeForeignWrite({ resource, key, manager, atMs }: ForeignWrite): string {
  return `${manager} wrote the status of ${resource} ${key} at ${new Date(atMs).toISOString()}`;
}
