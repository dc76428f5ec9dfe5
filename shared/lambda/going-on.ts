/**
 * One look at a key, and at those keys that it makes due and this function can sync, too: no message, no other invocation.
 *
 * GO1 so goes on whatever falls due before `untilMs`, at most ten keys at a time; every other doorbell is rung.
 * GO2 it is a look at the key like any other, so lease, gate, stop and epoch are asked. One whose Store was out of reach is rung.
 * GO3 a key that is due again at once at the end of its own run is looked at once more, when that look is over; due again after that it
 *    is rung, as is one that backs off: others wait for their turn.
 * GO4 nothing is lost with the process: a key is dirty before anybody thinks of its doorbell, and the sweeper rings it (informer §12.4).
 * GO5 when all has ended, every doorbell is rung: nobody would wait for a look any more.
 */
import type { Controller } from "../api/resources.ts";
import { ring } from "../cache/ring.ts";
import type { Clock } from "../ports/clock.ts";
import { describeError } from "../ports/describe-error.ts";
import type { Doorbell, Doorbells } from "../ports/doorbells.ts";
import type { Log } from "../ports/log.ts";

export interface GoingOnPorts {
  /** For what does not go on here. */
  readonly doorbells: Doorbells;
  readonly clock: Clock;
  readonly log: Log;
  readonly canSync: (controller: Controller) => boolean;
  /** One look at the key, which was asked for at `askedMs`; `doorbells` are what its run rings. @throws when the Store is out of reach */
  readonly look: (bell: Doorbell, doorbells: Doorbells, askedMs: number) => Promise<void>;
  /** By `clock`. */
  readonly untilMs: number;
}

/** More than a rollout wakes. Each look reads what its owner has, so they are no more than are worth their memory. */
const GOING_MAX = 10;

/** Resolves when nothing goes on any more. @throws what the look at the first key threw, no sooner */
export async function lookAndGoOn(ports: GoingOnPorts, first: Doorbell, askedMs: number): Promise<void> {
  const { doorbells, clock, log, canSync, untilMs } = ports;
  const looking: string[] = [];
  const going = new Set<Promise<void>>();
  let hasEnded = false;

  /** GO3. What the first of both looks throws leaves the second to whoever rings next: it is the same key. */
  async function look(bell: Doorbell, atMs: number): Promise<void> {
    let again: { readonly bell: Doorbell; readonly atMs: number } | undefined;
    await lookOnce(bell, atMs, async (bells) => {
      const own = bells.find((each) => again === undefined && isDueAgain(each, bell));
      if (own) again = { bell: own, atMs: clock.now() };
      const others = bells.filter((each) => each !== own);
      if (others.length > 0) await ringOrGoOn(others);
    });
    if (again === undefined) return;
    const { bell: due, atMs: dueMs } = again;
    await sparing(due, () => lookOnce(due, dueMs, ringOrGoOn));
  }

  function isDueAgain(due: Doorbell, bell: Doorbell): boolean {
    return !hasEnded && nameOf(due) === nameOf(bell) && due.delayMs === 0 && clock.now() < untilMs;
  }

  async function lookOnce(bell: Doorbell, atMs: number, ringDue: Doorbells["ring"]): Promise<void> {
    const name = nameOf(bell);
    looking.push(name);
    try {
      await ports.look(bell, { ring: ringDue }, atMs);
    } finally {
      looking.splice(looking.indexOf(name), 1);
    }
  }

  async function goOn(due: Doorbell, atMs: number): Promise<void> {
    await sparing(due, async () => {
      if (due.delayMs > 0) await clock.after(due.delayMs);
      await look(due, atMs);
    });
  }

  /** GO2. */
  async function sparing(due: Doorbell, looks: () => Promise<void>): Promise<void> {
    const { key, controller } = due;
    try {
      await looks();
    } catch (error) {
      log.warn("key could not be synced at once, it is rung", { key, controller, error: describeError(error) });
      await ring({ doorbells, log }, [{ ...due, delayMs: 0 }]);
    }
  }

  async function ringOrGoOn(bells: readonly Doorbell[]): Promise<void> {
    const nowMs = clock.now();
    const isHere = (bell: Doorbell): boolean =>
      canSync(bell.controller) && nowMs + bell.delayMs < untilMs && !looking.includes(nameOf(bell));
    const here = hasEnded ? [] : bells.filter(isHere).slice(0, GOING_MAX - going.size);
    const others = bells.filter((bell) => !here.includes(bell));
    for (const due of here) {
      const one = goOn(due, nowMs).finally(() => going.delete(one));
      going.add(one);
    }
    if (others.length > 0) await doorbells.ring(others);
  }

  try {
    await look(first, askedMs);
  } finally {
    while (going.size > 0) await Promise.all(going);
    hasEnded = true;
  }
}

function nameOf({ controller, key }: Doorbell): string {
  return `${controller} ${key}`;
}
