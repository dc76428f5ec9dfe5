/**
 * The watcher's part of the guard (informer §11.9): detects another controller's writes and has the Store stop the keys of their
 * namespace, or all keys, until a user resumes. The Store's part is GD1–GD8 (shared/store/ports/guard-store.ts).
 *
 * FG1 a write counts if it is proven (inquiry.ts) and later than both the start of this process' leadership and the last resume. Write
 *     times have whole seconds, so a write in the first two seconds may be missed; an active controller writes again.
 * FG2 the watcher reports it to the Store at once and then each second, until the Store returns that a resume has accepted it. So a stop that is lost
 *     with Redis or the Lease is set again while this process runs.
 * FG3 only the newest write of each namespace is reported; accepting it accepts the older ones.
 * FG4 no term begins, and so no gate of a new epoch opens, before the Store has answered and pending claims are verified. The wait for the
 *     API server is at most ASK_MS_MAX, so that an unresponsive one does not block everything.
 * FG5 a stop that exists in the Store when a term begins is reported again like a write that this process saw.
 * FG6 a write whose time is later than now plus the allowed clock skew, by the API server's clock as measured at the beginning, counts as
 *     made now.
 * FG7 a write stops its namespace. Each such write, and each stop of FG5, makes the watcher change the canary (canary.ts); if another
 *     controller then writes the canary, everything is stopped. A write of the canary needs no proof, because no tenant can write it.
 */
import { isObject, objectAt, textAt } from "@deltaloop/base";
import type { CachedResource } from "@deltaloop/kube/objects";
import { splitKey } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { ForeignWrite, GuardState, Stop, Store } from "@deltaloop/store/ports";
import { describeStop, SKEW_MS, stoppedNamespaces } from "@deltaloop/store/ports";
import { createCanary } from "./canary.ts";
import type { CanaryPlace, CanaryPorts } from "./canary.ts";
import { claimOf, newestClaimed } from "./foreign-write.ts";
import { createInquiry } from "./inquiry.ts";
import type { InquiryPorts } from "./inquiry.ts";

export interface ForeignWriteGuardPorts extends InquiryPorts {
  readonly store: Pick<Store, "guard" | "reportForeignWrites">;
  readonly kube: InquiryPorts["kube"] & CanaryPorts["kube"];
}

export interface ForeignWriteGuard {
  /** Starts the guard for a process that leads since `nowMs` (the API server's clock, rounded up). */
  begin(nowMs: number): void;
  /** Inspects each incoming object, before it is stripped. Returns `canary` for the canary, which functions must not see. */
  look(resource: CachedResource, object: unknown): "canary" | undefined;
  /** Exchanges writes and resumes with the Store before a term begins (FG4). @throws if the Store does not answer; the term must not begin */
  beforeTerm(): Promise<void>;
  /** Reports until `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
}

const REPORT_MS = 1_000;
const ASK_MS_MAX = 5_000;
/** Key of the stop of everything, among namespaces. */
const EVERYTHING = "";

export function createForeignWriteGuard({ store, kube, clock, log }: ForeignWriteGuardPorts, place: CanaryPlace): ForeignWriteGuard {
  let beginningMs = Infinity;
  let aheadMs = 0;
  /** The time up to which a user's `resume` has accepted writes, by namespace. A flushed Store loses these times. */
  const accepted = new Map<string, number>();
  /** Writes that no resume has accepted, by namespace. */
  const seen = new Map<string, ForeignWrite>();
  const told = new Set<string>();
  let wake = (): void => undefined;
  const canary = createCanary({ kube, clock, log }, place);

  const acceptedMs = (namespace: string): number => Math.max(accepted.get(EVERYTHING) ?? 0, accepted.get(namespace) ?? 0);
  const sinceMs = (namespace: string): number => Math.max(beginningMs, acceptedMs(namespace), seen.get(namespace)?.atMs ?? 0);
  const saw = (namespace: string, write: ForeignWrite): void => {
    const isNew = !seen.has(namespace);
    seen.set(namespace, { ...write, atMs: Math.min(write.atMs, clock.now() + aheadMs + SKEW_MS) }); // FG6
    if (!isNew) return;
    if (namespace !== EVERYTHING) canary.change();
    wake();
  };
  const inquiry = createInquiry({ kube, clock, log }, (write) => {
    const { namespace } = splitKey(write.key);
    if (write.atMs > sinceMs(namespace)) saw(namespace, write); // FG3
  });
  const tell = (namespace: string, stop: Stop): void => {
    if (told.has(namespace)) return;
    told.add(namespace);
    const why = describeStop(stop);
    if (namespace === EVERYTHING)
      log.error("another controller writes to the managed objects; syncing no keys until you run deltaloop resume", { why });
    else
      log.error("another controller writes in this namespace; syncing none of its keys until you run deltaloop resume -n NAMESPACE", {
        namespace,
        why,
      });
  };
  /** Merges the Store's accepted times into this process' state. */
  const learn = (answer: GuardState): void => {
    for (const [namespace, of] of [[EVERYTHING, answer] as const, ...answer.namespaces])
      accepted.set(namespace, Math.max(accepted.get(namespace) ?? 0, of.acceptedMs));
    for (const [namespace, { atMs }] of [...seen]) {
      if (atMs > acceptedMs(namespace)) continue; // newer than the resume: this write may have arrived during the call to the Store
      seen.delete(namespace);
      const until = { until: new Date(acceptedMs(namespace)).toISOString() };
      log.warn("resumed by a user: earlier writes of the other controller are ignored", {
        ...(namespace !== EVERYTHING && { namespace }),
        ...until,
      });
    }
    const stops = stopsOf(answer);
    for (const namespace of [...told]) if (!stops.has(namespace)) told.delete(namespace);
    for (const [namespace, stop] of stops) tell(namespace, stop);
  };
  const report = async (): Promise<void> => {
    if (seen.size === 0) return;
    const everything = seen.get(EVERYTHING);
    const namespaces = [...seen].flatMap(([namespace, write]) => (namespace === EVERYTHING ? [] : [write]));
    learn(await store.reportForeignWrites({ ...(everything && { everything }), namespaces }, clock.now()));
  };
  return {
    begin(nowMs) {
      beginningMs = nowMs;
      aheadMs = nowMs - clock.now();
    },
    look(resource, object) {
      const isCanary = canary.is(resource, object);
      const claim = claimOf(resource, object, isCanary ? sinceMs(EVERYTHING) : sinceMs(namespaceOf(object)));
      if (claim && !isCanary) inquiry.ask(claim);
      const write = claim && isCanary && newestClaimed(claim, Infinity);
      if (write) saw(EVERYTHING, write);
      return isCanary ? "canary" : undefined;
    },
    async beforeTerm() {
      const settled = new AbortController();
      await Promise.race([inquiry.settled(), clock.after(ASK_MS_MAX, settled.signal).catch(() => undefined)]);
      settled.abort();
      await report();
      const answer = await store.guard();
      learn(answer);
      for (const [namespace, stop] of stopsOf(answer)) {
        if (stop.kind === "seen" && stop.write.atMs > Math.max(acceptedMs(namespace), seen.get(namespace)?.atMs ?? 0))
          saw(namespace, stop.write);
      }
    },
    async run(signal) {
      const inquiring = inquiry.run(signal);
      const changing = canary.run(
        () => Math.max(0, sinceMs(EVERYTHING) + 1_000 - clock.now() - aheadMs),
        () => seen.size === 0 || seen.has(EVERYTHING),
        signal,
      );
      signal.addEventListener("abort", () => wake(), { once: true });
      while (!signal.aborted) {
        const woken = new Promise<void>((resolve) => (wake = resolve));
        await report().catch((error: unknown) =>
          log.warn("failed to report another controller's write, retrying", { error: describeError(error) }),
        );
        if (signal.aborted) break;
        await (seen.size === 0 ? woken : Promise.race([woken, clock.after(REPORT_MS, signal).catch(() => undefined)]));
      }
      await Promise.all([inquiring, changing]);
    },
  };
}

function stopsOf(state: GuardState): ReadonlyMap<string, Stop> {
  return state.stop ? new Map([[EVERYTHING, state.stop]]) : stoppedNamespaces(state);
}

function namespaceOf(object: unknown): string {
  return (isObject(object) && textAt(objectAt(object, "metadata"), "namespace")) || "";
}
