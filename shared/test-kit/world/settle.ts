/** Waits on virtual time until nothing is outstanding: no sync, no message, no write of anyone, no failing key. */
import type { ApiServer } from "@deltaloop/api-server";
import type { VirtualClock } from "@deltaloop/base/memory";
import { shutGate } from "@deltaloop/controllers/cache";
import type { OwnReport } from "@deltaloop/controllers/own";
import { keysOf, nextMs, skip } from "./idle.ts";
import type { QueuedKey, Watched } from "./idle.ts";

const STEP_MS = 100;
/** Longer than any wait between two steps of the built-in controllers and the nodes. */
const QUIET_MS = 1_000;
const SETTLE_MS_MAX = 120_000;
/** A sync that fails this often in a row is reported instead of waited for. */
const FAILURES_MAX = 8;
/** Writes that never end in a cluster. */
const BACKGROUND = new Set(["leases", "events", "nodes"]);
const WRITES = new Set(["create", "update", "patch", "delete"]);

/** The activity since the wait began, by key. */
export class Activity {
  #writes = 0;
  readonly #syncs = new Map<string, { times: number; last: string }>();

  constructor(server: ApiServer) {
    server.onRequest(({ verb, resource, status }) => {
      if (WRITES.has(verb) && status < 300 && !BACKGROUND.has(resource)) this.#writes++;
    });
  }

  report({ controller, key, writes, note }: OwnReport): void {
    const id = `${controller} ${key}`;
    const times = (this.#syncs.get(id)?.times ?? 0) + 1;
    this.#syncs.set(id, { times, last: note ?? (writes.map(({ what, why }) => `${what} (${why})`).join(", ") || "no write") });
  }

  /** Number of writes and syncs. */
  count(): number {
    return this.#writes + [...this.#syncs.values()].reduce((sum, { times }) => sum + times, 0);
  }

  lastOf(id: string): string | undefined {
    return this.#syncs.get(id)?.last;
  }

  /** The key that was synced most often, and what it did last. */
  busiest(): string | undefined {
    const [most] = [...this.#syncs].sort(([, a], [, b]) => b.times - a.times);
    return most && `${most[0]} was synced ${most[1].times} times, last: ${most[1].last}`;
  }
}

/**
 * Lets `ms` pass. While nothing is outstanding, time up to shortly before the next key is due is skipped, because idle polls, heartbeats
 * and checkpoints of an hour take seconds.
 */
export async function pass(clock: VirtualClock, ms: number, activity: Activity, systems: () => readonly Watched[]): Promise<void> {
  const untilMs = clock.now() + ms;
  let before = -1;
  while (clock.now() < untilMs) {
    const count = activity.count();
    const keys = await keysOf(systems());
    if (count === before && (await movingIn(systems())) === undefined) await skip(clock, systems(), Math.min(untilMs, nextMs(keys)));
    before = count;
    await clock.advance(Math.min(QUIET_MS, untilMs - clock.now()));
  }
}

/** @throws {Error} that says what keeps going */
export async function settle(clock: VirtualClock, activity: Activity, systems: () => readonly Watched[], check: () => void): Promise<void> {
  const startedMs = clock.now();
  let [quietSinceMs, unchangedSinceMs, before] = [startedMs, startedMs, activity.count()];
  let why: string | undefined;
  while (clock.now() - quietSinceMs < QUIET_MS) {
    if (clock.now() - startedMs > SETTLE_MS_MAX)
      throw new Error(`the world does not settle: ${why ?? activity.busiest() ?? "objects keep changing"}`);
    await clock.advance(STEP_MS);
    check();
    const keys = await keysOf(systems());
    const moving = await movingIn(systems());
    why = moving ?? outstanding(clock.now(), keys, activity);
    const count = activity.count();
    if (count !== before) unchangedSinceMs = clock.now();
    // The remaining keys wait, for example for the lease of a process that died.
    const waits = clock.now() - unchangedSinceMs >= QUIET_MS && moving === undefined;
    if (waits && why !== undefined) await skip(clock, systems(), nextMs(keys));
    if (why !== undefined || count !== before) quietSinceMs = clock.now();
    before = count;
  }
}

/** Returns the changes that have not reached the syncs yet. */
async function movingIn(systems: readonly Watched[]): Promise<string | undefined> {
  if (systems.some(({ backend }) => backend.queue.size() > 0)) return "changes are on their way to the cache";
  const gates = await Promise.all(systems.map(({ backend, names }) => shutGate(backend.store, names)));
  return gates.find((reason) => reason !== undefined);
}

function outstanding(nowMs: number, keys: readonly QueuedKey[], activity: Activity): string | undefined {
  for (const { controller, key, readyAtMs, leaseUntilMs, failures } of keys) {
    const id = `${controller} ${key}`;
    const failed = activity.lastOf(id) ?? "its sync failed";
    if (failures >= FAILURES_MAX) throw new Error(`${id} failed ${failures} times in a row: ${failed}`);
    if (leaseUntilMs !== undefined) return `${id} is being synced`;
    if (failures > 0) return `${id} failed: ${failed}`;
    if (readyAtMs < nowMs + QUIET_MS) return `${id} is due, last: ${activity.lastOf(id) ?? "never synced"}`;
  }
  return undefined;
}
