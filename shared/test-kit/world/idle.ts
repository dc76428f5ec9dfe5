/**
 * Skips idle time. The components find out as after a suspension of their process: overdue timers fire late, and lanes of the cache that
 * were silent close the gates until their next heartbeat.
 */
import type { VirtualClock } from "@deltaloop/base/memory";
import type { ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { MemoryBackend } from "@deltaloop/local";

/** One system: the user's controllers, or the built-in ones. */
export interface Watched {
  readonly backend: MemoryBackend;
  readonly names: readonly ControllerName[];
}

export interface QueuedKey {
  readonly controller: ControllerName;
  readonly key: ObjectKey;
  /** Infinity while it is not due. */
  readonly readyAtMs: number;
  readonly leaseUntilMs?: number;
  readonly failures: number;
}

/** Idle time that is not worth skipping. */
const SKIPPED_MS_MIN = 5_000;
/** The pipeline runs for this long before a key is due: every lane sends a heartbeat again, which opens the gates. */
const AWAKE_MS = 2_000;
const HEARTBEAT_MS = 1_000;

export async function keysOf(systems: readonly Watched[]): Promise<readonly QueuedKey[]> {
  const each = systems.flatMap(({ backend, names }) =>
    names.map(async (controller) =>
      (await backend.store.queued(controller)).map(({ readyAtMs = Infinity, ...key }): QueuedKey => ({ controller, readyAtMs, ...key })),
    ),
  );
  return (await Promise.all(each)).flat();
}

/** When the next key is due or the next lease ends. */
export function nextMs(keys: readonly QueuedKey[]): number {
  return Math.min(Infinity, ...keys.map(({ readyAtMs, leaseUntilMs }) => leaseUntilMs ?? readyAtMs));
}

/** Skips to shortly before `untilMs`, if it is far away. */
export async function skip(clock: VirtualClock, systems: readonly Watched[], untilMs: number): Promise<void> {
  const idleMs = untilMs - clock.now() - AWAKE_MS;
  if (!Number.isFinite(idleMs) || idleMs < SKIPPED_MS_MIN) return;
  clock.skip(idleMs);
  await clock.advance(HEARTBEAT_MS);
  for (const system of systems) await ring(clock, system);
}

/** Doorbells that became due meanwhile found the gates closed, so those of the next keys are sent again. */
async function ring(clock: VirtualClock, system: Watched): Promise<void> {
  const { current } = await system.backend.store.lineage();
  if (current === undefined) return;
  const { epoch } = current.record;
  const due = (await keysOf([system])).filter(({ readyAtMs }) => readyAtMs < clock.now() + 2 * AWAKE_MS);
  await system.backend.doorbells.ring(
    due.map(({ controller, key, readyAtMs }) => ({ controller, key, epoch, delayMs: Math.max(0, readyAtMs - clock.now()) })),
  );
}
