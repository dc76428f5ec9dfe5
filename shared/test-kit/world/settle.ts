/** Waits on virtual time until nothing is outstanding: no sync, no message, no write of anyone, no failing key. */
import type { ApiServer } from "@deltaloop/api-server";
import type { VirtualClock } from "@deltaloop/base/memory";
import type { OwnReport } from "@deltaloop/controllers/own";
import type { ControllerName } from "@deltaloop/kube/objects";
import type { MemoryBackend } from "@deltaloop/local";

const STEP_MS = 100;
/** Longer than any wait between two steps of the built-in controllers and the nodes. */
const QUIET_MS = 1_000;
const SETTLE_MS_MAX = 120_000;
/** A sync that fails this often in a row is reported instead of waited for. */
const FAILURES_MAX = 8;
/** Writes that never end in a cluster. */
const BACKGROUND = new Set(["leases", "events", "nodes"]);
const WRITES = new Set(["create", "update", "patch", "delete"]);

export interface Watched {
  readonly backend: MemoryBackend;
  readonly names: readonly ControllerName[];
}

/** What happened since the wait began, by key. */
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

  /** How many writes and syncs there were. */
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

/** Idle time that is not worth skipping. */
const SKIPPED_MS_MIN = 10_000;
/** The pipeline runs for this long before a key is due: every lane sends a heartbeat again. */
const AWAKE_MS = 5_000;

/**
 * Lets `ms` pass. While nothing is outstanding, time up to shortly before the next key is due is skipped, because idle polls, heartbeats
 * and checkpoints of an hour take seconds.
 */
export async function pass(clock: VirtualClock, ms: number, activity: Activity, systems: () => readonly Watched[]): Promise<void> {
  const untilMs = clock.now() + ms;
  let before = -1;
  while (clock.now() < untilMs) {
    const count = activity.count();
    if (count === before && (await outstanding(clock.now(), activity, systems(), false)) === undefined) {
      const idleMs = Math.min(untilMs, await nextDueMs(systems())) - clock.now() - AWAKE_MS;
      if (idleMs > SKIPPED_MS_MIN) {
        clock.skip(idleMs);
        await clock.advance(QUIET_MS);
        await ring(clock, systems());
      }
    }
    before = count;
    await clock.advance(Math.min(QUIET_MS, untilMs - clock.now()));
  }
}

/** Doorbells that became due meanwhile found the gates closed, so those of the next keys are sent again. */
async function ring(clock: VirtualClock, systems: readonly Watched[]): Promise<void> {
  for (const { backend, names } of systems) {
    const { current } = await backend.store.lineage();
    if (current === undefined) continue;
    const { epoch } = current.record;
    for (const controller of names) {
      const due = (await backend.store.queued(controller)).filter(({ readyAtMs = Infinity }) => readyAtMs < clock.now() + AWAKE_MS);
      await backend.doorbells.ring(
        due.map(({ key, readyAtMs = 0 }) => ({ controller, key, epoch, delayMs: Math.max(0, readyAtMs - clock.now()) })),
      );
    }
  }
}

async function nextDueMs(systems: readonly Watched[]): Promise<number> {
  const keys = await Promise.all(systems.flatMap(({ backend, names }) => names.map((name) => backend.store.queued(name))));
  return Math.min(Infinity, ...keys.flat().map(({ readyAtMs = Infinity }) => readyAtMs));
}

/** @throws {Error} that says what keeps going */
export async function settle(clock: VirtualClock, activity: Activity, systems: () => readonly Watched[], check: () => void): Promise<void> {
  const startedMs = clock.now();
  let [quietSinceMs, before] = [startedMs, activity.count()];
  let why: string | undefined;
  while (clock.now() - quietSinceMs < QUIET_MS) {
    if (clock.now() - startedMs > SETTLE_MS_MAX)
      throw new Error(`the world does not settle: ${why ?? activity.busiest() ?? "objects keep changing"}`);
    await clock.advance(STEP_MS);
    check();
    why = await outstanding(clock.now(), activity, systems());
    const now = activity.count();
    if (why !== undefined || now !== before) quietSinceMs = clock.now();
    before = now;
  }
}

async function outstanding(
  nowMs: number,
  activity: Activity,
  systems: readonly Watched[],
  countsFailures = true,
): Promise<string | undefined> {
  for (const { backend, names } of systems) {
    if (backend.queue.size() > 0) return "changes are on their way to the cache";
    for (const name of names) {
      for (const { key, readyAtMs = Infinity, leaseUntilMs, failures } of await backend.store.queued(name)) {
        const id = `${name} ${key}`;
        if (failures >= FAILURES_MAX)
          throw new Error(`${id} failed ${failures} times in a row: ${activity.lastOf(id) ?? "its sync failed"}`);
        if (leaseUntilMs !== undefined) return `${id} is being synced`;
        if (countsFailures && failures > 0) return `${id} failed: ${activity.lastOf(id) ?? "its sync failed"}`;
        if (readyAtMs < nowMs + QUIET_MS) return `${id} is due, last: ${activity.lastOf(id) ?? "never synced"}`;
      }
    }
  }
  return undefined;
}
