/**
 * One look at a key, and at those keys that it makes due and this function can sync, too: no message, no other invocation.
 *
 * GO1 so goes on whatever falls due before `untilMs`, at most ten keys at a time; every other doorbell is rung.
 * GO2 it is a look at the key like any other, so lease, gate, stop and epoch are asked. One whose Store was out of reach is rung.
 * GO3 a key that is due again at once at the end of its own run is looked at once more, when that look is over; due again after that it
 *    is rung, as is one that backs off: others wait for their turn.
 * GO4 nothing is lost with the process: a key is dirty before anybody thinks of its doorbell, and the sweeper rings it (informer §12.4).
 * GO5 when all has ended, every doorbell is rung: nobody would wait for a look any more.
 * GO6 a key that a run's step is about to make due is looked at right behind that step, without its answer: one way to the Store and back
 *    less. `take` may be asked at any time, so nothing rests on the guess: only if it is ours before the answer has come is the doorbell
 *    in that answer its own and forgotten. Else it is dealt with as ever, when that look is over.
 */
import type { Controller } from "../api/resources.ts";
import { ring } from "../cache/ring.ts";
import type { Clock } from "../ports/clock.ts";
import { describeError } from "../ports/describe-error.ts";
import type { Doorbell, Doorbells } from "../ports/doorbells.ts";
import type { Log } from "../ports/log.ts";

export interface FollowUpPorts {
  /** For what does not go on here. */
  readonly doorbells: Doorbells;
  readonly clock: Clock;
  readonly log: Log;
  readonly canSync: (controller: Controller) => boolean;
  /** One look at the key, which was asked for at `askedMs`; `doorbells` are what its run rings; `onTaken`: it has the key. @throws when the Store is out of reach */
  readonly look: (bell: Doorbell, doorbells: Doorbells, askedMs: number, onTaken: () => void) => Promise<void>;
  /** By `clock`. */
  readonly untilMs: number;
}

interface Look {
  readonly bell: Doorbell;
  /** When it was asked for. */
  readonly atMs: number;
  readonly onTaken?: () => void;
}

/** A look behind a step that is not answered yet. */
interface Asked {
  readonly isTaken: Promise<boolean>;
  readonly ended: Promise<void>;
  hasEnded: boolean;
}

/** More than a rollout wakes. Each look reads what its owner has, so they are no more than are worth their memory. */
const GOING_MAX = 10;

/** Resolves when nothing goes on any more. @throws what the look at the first key threw, no sooner */
export async function runWithFollowUps(ports: FollowUpPorts, first: Doorbell, askedMs: number): Promise<void> {
  const { doorbells, clock, log, canSync, untilMs } = ports;
  const looking: string[] = [];
  const going = new Set<Promise<void>>();
  let hasEnded = false;

  function keepGoing(act: Promise<void>): void {
    const one = act.finally(() => going.delete(one));
    going.add(one);
  }

  /** GO3. What the first of both looks throws leaves the second to whoever rings next: it is the same key. */
  async function look(asked: Look): Promise<void> {
    const { bell } = asked;
    let again: Look | undefined;
    await lookOnce(asked, async (bells) => {
      const own = bells.find((each) => again === undefined && isDueAgain(each, bell));
      if (own) again = { bell: own, atMs: clock.now() };
      const others = bells.filter((each) => each !== own);
      if (others.length > 0) await ringOrGoOn(others);
    });
    if (again === undefined) return;
    const due = again;
    await sparing(due.bell, () => lookOnce(due, ringOrGoOn));
  }

  function isDueAgain(due: Doorbell, bell: Doorbell): boolean {
    return !hasEnded && nameOf(due) === nameOf(bell) && due.delayMs === 0 && clock.now() < untilMs;
  }

  async function lookOnce({ bell, atMs, onTaken = () => undefined }: Look, ringDue: Doorbells["ring"]): Promise<void> {
    const name = nameOf(bell);
    looking.push(name);
    try {
      await ports.look(bell, { ring: ringDue, expect: (bells) => lookBehind(bells, ringDue) }, atMs, onTaken);
    } finally {
      looking.splice(looking.indexOf(name), 1);
    }
  }

  async function goOn(due: Look): Promise<void> {
    const { bell } = due;
    await sparing(bell, async () => {
      if (bell.delayMs > 0) await clock.after(bell.delayMs);
      await look(due);
    });
  }

  /** GO6. The keys are asked for before this returns. */
  function lookBehind(bells: readonly Doorbell[], ringDue: Doorbells["ring"]): Pick<Doorbells, "ring"> {
    const atMs = clock.now();
    const distinct = [...new Map(bells.map((bell) => [nameOf(bell), bell])).values()];
    const behind = new Map(here(distinct, atMs).map((bell) => [nameOf(bell), askFor(bell, atMs)]));
    return {
      ring: async (due) => {
        const others: Doorbell[] = [];
        for (const bell of due) {
          const asked = behind.get(nameOf(bell));
          if (asked === undefined || asked.hasEnded) others.push(bell);
          else keepGoing(unlessTaken(asked, bell));
        }
        if (others.length > 0) await ringDue(others);
      },
    };
  }

  function askFor(bell: Doorbell, atMs: number): Asked {
    const { promise: isTaken, resolve } = Promise.withResolvers<boolean>();
    const ended = goOn({ bell, atMs, onTaken: () => resolve(true) }).finally(() => {
      asked.hasEnded = true;
      resolve(false);
    });
    const asked: Asked = { isTaken, ended, hasEnded: false };
    keepGoing(ended);
    return asked;
  }

  async function unlessTaken({ isTaken, ended }: Asked, bell: Doorbell): Promise<void> {
    if (await isTaken) return;
    await ended;
    await ring({ doorbells: { ring: ringOrGoOn }, log }, [bell]);
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
    const atMs = clock.now();
    const now = here(bells, atMs);
    const others = bells.filter((bell) => !now.includes(bell));
    for (const bell of now) keepGoing(goOn({ bell, atMs }));
    if (others.length > 0) await doorbells.ring(others);
  }

  /** GO1: those that are gone on to. */
  function here(bells: readonly Doorbell[], nowMs: number): readonly Doorbell[] {
    const isHere = (bell: Doorbell): boolean =>
      canSync(bell.controller) && nowMs + bell.delayMs < untilMs && !looking.includes(nameOf(bell));
    return hasEnded ? [] : bells.filter(isHere).slice(0, Math.max(0, GOING_MAX - going.size));
  }

  try {
    await look({ bell: first, atMs: askedMs });
  } finally {
    while (going.size > 0) await Promise.all(going);
    hasEnded = true;
  }
}

function nameOf({ controller, key }: Doorbell): string {
  return `${controller} ${key}`;
}
