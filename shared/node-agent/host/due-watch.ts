/**
 * Polls due items at the earliest due time, which is known because all scheduling goes through here.
 * Polling ten times a second would wake an idle agent 600 times a minute.
 *
 * DW1 nothing has been due for longer than `LOOK_MS` when it is looked for, also what is scheduled later than, and due before, all else.
 * DW2 it is looked for no more often than that: what is due close together is found together.
 * DW3 while nothing is scheduled no timer runs.
 */
import type { Clock } from "@deltaloop/base";
import type { Agenda, NodeStore } from "../ports/node-store.ts";

const LOOK_MS = 100;

export interface DueWatch {
  /** The store whose due times are seen. */
  readonly store: NodeStore;
  /** Resolves when it is time to look once more; the call says that it was looked just now. */
  next(signal: AbortSignal): Promise<void>;
}

export function createDueWatch(store: NodeStore, agenda: Agenda, clock: Clock): DueWatch {
  let scheduled: (dueMs: number) => void = () => undefined;
  return {
    store: {
      ...store,
      async schedule(of, key, dueMs) {
        await store.schedule(of, key, dueMs);
        if (of === agenda) scheduled(dueMs);
      },
    },
    async next(signal) {
      const lookAtMs = clock.now() + LOOK_MS;
      let earliestMs = Infinity;
      let wait = new AbortController();
      scheduled = (dueMs) => {
        const isEarlier = Math.max(dueMs, lookAtMs) < Math.max(earliestMs, lookAtMs);
        earliestMs = Math.min(earliestMs, dueMs);
        if (isEarlier) wait.abort();
      };
      for (const dueMs of (await store.agenda(agenda)).values()) earliestMs = Math.min(earliestMs, dueMs);
      const end = (): void => wait.abort();
      signal.addEventListener("abort", end, { once: true });
      while (!signal.aborted && clock.now() < Math.max(earliestMs, lookAtMs)) {
        wait = new AbortController();
        await until(clock, Math.max(earliestMs, lookAtMs), wait.signal);
      }
      signal.removeEventListener("abort", end);
    },
  };
}

/** Or until `signal` aborts. */
async function until(clock: Clock, atMs: number, signal: AbortSignal): Promise<void> {
  if (Number.isFinite(atMs)) await clock.after(atMs - clock.now(), signal).catch(() => undefined);
  else await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
