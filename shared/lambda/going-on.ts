/**
 * One look at a key, and at those keys that it makes due and this function can sync, too: no message, no other invocation.
 *
 * GO1 so goes on whatever falls due before `untilMs`; every other doorbell is rung.
 * GO2 it is a look at the key like any other, so lease, gate, stop and epoch are asked. One whose Store was out of reach is rung.
 * GO3 a key that is due again at the end of its own run is rung: others wait for their turn.
 * GO4 nothing is lost with the process: a key is dirty before anybody thinks of its doorbell, and the sweeper rings it (informer §12.3).
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
  /** One look at the key; `doorbells` are what its run rings. @throws when the Store is out of reach */
  readonly look: (bell: Doorbell, doorbells: Doorbells) => Promise<void>;
  /** By `clock`. */
  readonly untilMs: number;
}

/** Resolves when nothing goes on any more. @throws what the look at the first key threw, no sooner */
export async function lookAndGoOn(ports: GoingOnPorts, first: Doorbell): Promise<void> {
  const { doorbells, clock, log, canSync, untilMs } = ports;
  const looking = new Set<string>();
  const going = new Set<Promise<void>>();

  async function look(bell: Doorbell): Promise<void> {
    const name = nameOf(bell);
    looking.add(name);
    try {
      await ports.look(bell, { ring: ringOrGoOn });
    } finally {
      looking.delete(name);
    }
  }

  async function goOn(due: Doorbell): Promise<void> {
    const { key, controller, delayMs } = due;
    try {
      if (delayMs > 0) await clock.after(delayMs);
      await look(due);
    } catch (error) {
      log.warn("key could not be synced at once, it is rung", { key, controller, error: describeError(error) });
      await ring({ doorbells, log }, [{ ...due, delayMs: 0 }]);
    }
  }

  async function ringOrGoOn(bells: readonly Doorbell[]): Promise<void> {
    const leftMs = untilMs - clock.now();
    const isHere = (bell: Doorbell): boolean => canSync(bell.controller) && bell.delayMs < leftMs && !looking.has(nameOf(bell));
    const [here, others] = [bells.filter(isHere), bells.filter((bell) => !isHere(bell))];
    for (const due of here) {
      const one = goOn(due).finally(() => going.delete(one));
      going.add(one);
    }
    if (others.length > 0) await doorbells.ring(others);
  }

  try {
    await look(first);
  } finally {
    while (going.size > 0) await Promise.all(going);
  }
}

function nameOf({ controller, key }: Doorbell): string {
  return `${controller} ${key}`;
}
