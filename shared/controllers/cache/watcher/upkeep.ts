/**
 * The leader's periodic jobs (informer §15): resync and audit. The Store holds their schedule, so a new leader continues it.
 *
 * UK1 a resync enqueues keys and reads nothing from the API server; keys in back-off keep their delay.
 * UK2 an audit lists metadata only. To repair differing rows, the stream lists the resource again, because its messages are in order with
 *     its events. A stored value that contradicts its own row is read live and replaced (A14).
 * UK3 a failed job is retried at the next tick, as long as this process leads.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { isOwnView } from "@deltaloop/kube/objects";
import type { CachedResource, View } from "@deltaloop/kube/objects";
import { describeError, isTooLargeResourceVersion } from "@deltaloop/kube/client";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Doorbells, Store } from "@deltaloop/store/ports";
import type { KubeReader, KubeWatch } from "@deltaloop/kube/client";
import { AUDIT_MS, AUDIT_SETTLE_MS, RESYNC_MS, RESYNC_SPREAD_MS, UPKEEP_TICK_MS } from "@deltaloop/base";
import type { CacheRegistry } from "../cache-registry.ts";
import { auditResource, primaryToEnqueue } from "./audit.ts";
import type { Difference, DifferenceKind } from "./audit.ts";
import { repair } from "../repair.ts";
import { ring } from "../ring.ts";

/** Intervals in ms, named after the constants of shared/base/times.ts. */
export interface UpkeepTimes {
  readonly resyncMs: number;
  readonly resyncSpreadMs: number;
  readonly auditMs: number;
  readonly auditSettleMs: number;
  readonly tickMs: number;
}

export const UPKEEP_TIMES: UpkeepTimes = {
  resyncMs: RESYNC_MS,
  resyncSpreadMs: RESYNC_SPREAD_MS,
  auditMs: AUDIT_MS,
  auditSettleMs: AUDIT_SETTLE_MS,
  tickMs: UPKEEP_TICK_MS,
};

export interface UpkeepPorts {
  readonly kube: Pick<KubeWatch, "listPage">;
  readonly reader: Pick<KubeReader, "get">;
  readonly store: Store;
  readonly doorbells: Doorbells;
  readonly registry: CacheRegistry;
  readonly clock: Clock;
  readonly random: Random;
  readonly digester: Digester;
  readonly log: Log;
}

export interface UpkeepOptions {
  readonly epoch: string;
  readonly times: UpkeepTimes;
  /** Makes the stream list a resource again. */
  readonly relist: (resource: View, why: string) => void;
}

const NAMED_MAX = 10;
/** Number of objects that one audit reads live; repair.ts limits each call, and the next audit repairs the rest. */
const REPAIRED_MAX = 500;

/** Runs until `signal` aborts. */
export async function runUpkeep(ports: UpkeepPorts, options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, random, registry, store } = ports;
  const { epoch, times } = options;
  const between = (leastMs: number, mostMs: number): number => leastMs + random.next() * (mostMs - leastMs);
  const jobs = [
    ...registry.catalog.controllers.map((controller) => ({
      name: `resync ${controller}`,
      afterMs: () => between(times.resyncMs / 2, 1.5 * times.resyncMs),
      run: async () => {
        const bells = await store.resync(epoch, controller, times.resyncSpreadMs);
        log.info("resync", { controller, count: bells.length });
        await ring(ports, bells);
      },
    })),
    // An own view is not audited yet.
    ...registry.catalog.views
      .filter((view) => !isOwnView(view))
      .map((resource) => ({
        name: `audit ${resource}`,
        // The delay has jitter relative to the other jobs and leaves enough time to finish within the period.
        afterMs: () => between(times.auditMs / 2, 0.75 * times.auditMs),
        run: () => audit(ports, options, resource, signal),
      })),
  ];
  const pending = new Set<string>();
  while (!signal.aborted) {
    await clock.after(times.tickMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      const turns = jobs.map(({ name, afterMs }) => ({ job: name, afterMs: afterMs() }));
      for (const name of await store.takeTurns(epoch, turns)) pending.add(name);
    } catch (error) {
      log.warn("upkeep failed, retrying at the next tick", { job: "schedule", error: describeError(error) });
    }
    for (const { name, run } of jobs) {
      if (signal.aborted) return;
      if (!pending.has(name)) continue;
      try {
        await run();
        pending.delete(name);
      } catch (error) {
        if (!signal.aborted) log.warn("upkeep failed, retrying at the next tick", { job: name, error: describeError(error) });
      }
    }
  }
}

/** Compares cache and API server, logs one line per kind of difference, and repairs them. */
async function audit(ports: UpkeepPorts, options: UpkeepOptions, resource: CachedResource, signal: AbortSignal): Promise<void> {
  const { epoch, times, relist } = options;
  const found = await auditResource(ports, resource, times.auditSettleMs, signal).catch((error: unknown) => {
    if (!isTooLargeResourceVersion(error)) throw error;
    return undefined;
  });
  // Only a list detects a lagging server or a history that went back (informer §10.7); a watch does not.
  if (!found) return relist(resource, "the API server does not know the version that is cached");
  const { differences, compared, unsettledLanes } = found;
  ports.log.info("audit", { resource, count: compared, differences: differences.length, unsettledLanes });
  const rows: string[] = [];
  for (const [kind, all] of Map.groupBy(differences, (each) => each.kind)) {
    const keys = `${all
      .slice(0, NAMED_MAX)
      .map(({ key }) => key)
      .join(", ")}${all.length > NAMED_MAX ? ", …" : ""}`;
    ports.log.error("the cache differs from the API server", { resource, difference: kind, count: all.length, rows: keys });
    if (BY_LIST.has(kind)) rows.push(`${all.length} ${kind}`);
  }
  const read = differences.filter(({ kind }) => !BY_LIST.has(kind)).slice(0, REPAIRED_MAX);
  for (const [, all] of Map.groupBy(read, (each) => JSON.stringify(primaryToEnqueue(each)))) await repairAll(ports, epoch, all);
  if (rows.length > 0) relist(resource, `the audit found rows that differ: ${rows.join(", ")}`);
}

const BY_LIST: ReadonlySet<DifferenceKind> = new Set(["missing", "surplus", "older", "ahead"]);
/** Objects that repair.ts reads per call. */
const REPAIRED_AT_ONCE = 50;

async function repairAll(ports: UpkeepPorts, epoch: string, all: readonly Difference[]): Promise<void> {
  for (let at = 0; at < all.length; at += REPAIRED_AT_ONCE) {
    const part = all.slice(at, at + REPAIRED_AT_ONCE);
    const [first] = part;
    if (first)
      await repair(
        ports,
        { epoch, ...primaryToEnqueue(first), token: "" },
        part.flatMap(({ stands }) => stands ?? []),
      );
  }
}
