/**
 * Waits until the earliest due time, which is known because all scheduling goes through here. Polling ten times a second instead would
 * wake an idle agent 600 times a minute.
 *
 * DW1 a due item waits at most `POLL_MS`, even if it was scheduled last and is due first.
 * DW2 polls are at least `POLL_MS` apart: items that are due close together are taken together.
 * DW3 while nothing is scheduled, no timer runs.
 */
import type { Clock } from "@deltaloop/base";
import type { Agenda, NodeStore } from "../ports/node-store.ts";

const POLL_MS = 100;

export interface DueWatch {
  /** The store; calls of `schedule` are observed. */
  readonly store: NodeStore;
  /** Resolves when the next poll is due. The time of this call counts as the time of the last poll. */
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
      const nextPollMs = clock.now() + POLL_MS;
      let earliestMs = Infinity;
      let wait = new AbortController();
      scheduled = (dueMs) => {
        const isEarlier = Math.max(dueMs, nextPollMs) < Math.max(earliestMs, nextPollMs);
        earliestMs = Math.min(earliestMs, dueMs);
        if (isEarlier) wait.abort();
      };
      for (const dueMs of (await store.agenda(agenda)).values()) earliestMs = Math.min(earliestMs, dueMs);
      const end = (): void => wait.abort();
      signal.addEventListener("abort", end, { once: true });
      while (!signal.aborted && clock.now() < Math.max(earliestMs, nextPollMs)) {
        wait = new AbortController();
        await until(clock, Math.max(earliestMs, nextPollMs), wait.signal);
      }
      signal.removeEventListener("abort", end);
    },
  };
}

/** Waits until `atMs`, or until `signal` aborts. */
async function until(clock: Clock, atMs: number, signal: AbortSignal): Promise<void> {
  if (Number.isFinite(atMs)) await clock.after(atMs - clock.now(), signal).catch(() => undefined);
  else await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
