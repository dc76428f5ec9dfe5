/**
 * Syncs one key. Keys that this sync enqueues, and that this function can sync, follow inline: without a message or another invocation.
 *
 * GO1 Keys that are due before `untilMs` are synced inline, at most ten at a time. For all others the doorbells are rung.
 * GO2 A follow-up is an ordinary sync, with lease, gate, stop and epoch. If its Store is unreachable, its doorbell is rung.
 * GO3 A key that its own run makes due immediately is synced one more time after that run. If it is then due again, or backs off, its
 *     doorbell is rung, so that other keys are not starved.
 * GO4 Nothing is lost with the process: a key is dirty before its doorbell exists, and the sweeper rings it (informer §12.4).
 * GO5 Once all syncs have ended, every new doorbell is rung, because no follow-up would start any more.
 * GO6 A follow-up takes the key that a run's Store call will enqueue as soon as that call is sent, which saves one round trip. `take` may
 *     be called at any time, so a key that turns out not to be enqueued does no harm. The doorbell in the response is dropped only if
 *     the follow-up has already taken the key; otherwise it is handled after the follow-up as usual.
 */
import type { ControllerName } from "@deltaloop/kube/objects";
import { ring } from "../cache/ring.ts";
import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import type { Doorbell, Doorbells } from "@deltaloop/store/ports";

/** One sync to run. */
export interface SyncRequest {
  readonly bell: Doorbell;
  /** The doorbells that its run rings. */
  readonly doorbells: Doorbells;
  /** When the sync was requested, by the clock. */
  readonly askedMs: number;
  /** Called once the run holds the key. */
  readonly onTaken?: () => void;
}

export interface FollowUpPorts {
  /** Sends the doorbells of keys that are not synced inline. */
  readonly doorbells: Doorbells;
  readonly clock: Clock;
  readonly log: Log;
  readonly canSync: (controller: ControllerName) => boolean;
  /** Runs one sync. @throws when the Store is unreachable */
  readonly sync: (request: SyncRequest) => Promise<void>;
  /** End of the time for inline syncs, by `clock`. */
  readonly untilMs: number;
}

/** A key to sync, without the doorbells of its run. */
type Due = Omit<SyncRequest, "doorbells">;

/** A follow-up whose Store call has no response yet (GO6). */
interface Early {
  readonly isTaken: Promise<boolean>;
  readonly ended: Promise<void>;
  hasEnded: boolean;
}

/** More than a rollout enqueues; bounded because each sync holds its owner's snapshot in memory. */
const FOLLOW_UPS_MAX = 10;

/** Resolves when all syncs have ended. @throws the error of the first key's sync, after that */
export async function runWithFollowUps(ports: FollowUpPorts, first: Doorbell, askedMs: number): Promise<void> {
  const { doorbells, clock, log, canSync, untilMs } = ports;
  const syncing: string[] = [];
  const running = new Set<Promise<void>>();
  let hasEnded = false;

  function keep(act: Promise<void>): void {
    const one = act.finally(() => running.delete(one));
    running.add(one);
  }

  /**
   * Syncs a key, and once more if its run makes the key due (GO3). If the first sync throws, the second one is started by the key's
   * doorbell, not here.
   */
  async function syncAndRepeat(due: Due): Promise<void> {
    const { bell } = due;
    let again: Due | undefined;
    await syncOnce(due, async (bells) => {
      const own = bells.find((each) => again === undefined && isDueAgain(each, bell));
      if (own) again = { bell: own, askedMs: clock.now() };
      const others = bells.filter((each) => each !== own);
      if (others.length > 0) await ringOrFollowUp(others);
    });
    if (again === undefined) return;
    const repeated = again;
    await ringOnFailure(repeated.bell, () => syncOnce(repeated, ringOrFollowUp));
  }

  function isDueAgain(due: Doorbell, bell: Doorbell): boolean {
    return !hasEnded && nameOf(due) === nameOf(bell) && due.delayMs === 0 && clock.now() < untilMs;
  }

  async function syncOnce(due: Due, ringDue: Doorbells["ring"]): Promise<void> {
    const name = nameOf(due.bell);
    syncing.push(name);
    try {
      await ports.sync({ ...due, doorbells: { ring: ringDue, expect: (bells) => syncBehind(bells, ringDue) } });
    } finally {
      syncing.splice(syncing.indexOf(name), 1);
    }
  }

  async function followUp(due: Due): Promise<void> {
    const { bell } = due;
    await ringOnFailure(bell, async () => {
      if (bell.delayMs > 0) await clock.after(bell.delayMs);
      await syncAndRepeat(due);
    });
  }

  /** Starts early follow-ups of the keys that a Store call is expected to enqueue (GO6). Returns how to ring the doorbells in its response. */
  function syncBehind(bells: readonly Doorbell[], ringDue: Doorbells["ring"]): Pick<Doorbells, "ring"> {
    const askedMs = clock.now();
    const distinct = [...new Map(bells.map((bell) => [nameOf(bell), bell])).values()];
    const behind = new Map(inline(distinct, askedMs).map((bell) => [nameOf(bell), startEarly(bell, askedMs)]));
    return {
      ring: async (due) => {
        const others: Doorbell[] = [];
        for (const bell of due) {
          const early = behind.get(nameOf(bell));
          if (early === undefined || early.hasEnded) others.push(bell);
          else keep(unlessTaken(early, bell));
        }
        if (others.length > 0) await ringDue(others);
      },
    };
  }

  function startEarly(bell: Doorbell, askedMs: number): Early {
    const { promise: isTaken, resolve } = Promise.withResolvers<boolean>();
    const ended = followUp({ bell, askedMs, onTaken: () => resolve(true) }).finally(() => {
      early.hasEnded = true;
      resolve(false);
    });
    const early: Early = { isTaken, ended, hasEnded: false };
    keep(ended);
    return early;
  }

  async function unlessTaken({ isTaken, ended }: Early, bell: Doorbell): Promise<void> {
    if (await isTaken) return;
    await ended;
    await ring({ doorbells: { ring: ringOrFollowUp }, log }, [bell]);
  }

  /** Runs a follow-up, and rings its doorbell if it fails (GO2). */
  async function ringOnFailure(due: Doorbell, run: () => Promise<void>): Promise<void> {
    const { key, controller } = due;
    try {
      await run();
    } catch (error) {
      log.warn("inline follow-up sync failed, ringing the doorbell", { key, controller, error: describeError(error) });
      await ring({ doorbells, log }, [{ ...due, delayMs: 0 }]);
    }
  }

  async function ringOrFollowUp(bells: readonly Doorbell[]): Promise<void> {
    const askedMs = clock.now();
    const now = inline(bells, askedMs);
    const others = bells.filter((bell) => !now.includes(bell));
    for (const bell of now) keep(followUp({ bell, askedMs }));
    if (others.length > 0) await doorbells.ring(others);
  }

  /** Returns the keys to sync inline (GO1). */
  function inline(bells: readonly Doorbell[], nowMs: number): readonly Doorbell[] {
    const isInline = (bell: Doorbell): boolean =>
      canSync(bell.controller) && nowMs + bell.delayMs < untilMs && !syncing.includes(nameOf(bell));
    return hasEnded ? [] : bells.filter(isInline).slice(0, Math.max(0, FOLLOW_UPS_MAX - running.size));
  }

  try {
    await syncAndRepeat({ bell: first, askedMs });
  } finally {
    while (running.size > 0) await Promise.all(running);
    hasEnded = true;
  }
}

function nameOf({ controller, key }: Doorbell): string {
  return `${controller} ${key}`;
}
