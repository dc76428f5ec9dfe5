/** A logind in memory, with what a test does to the machine. */
import type { InhibitLock, Logind } from "../ports/logind.ts";

export interface MemoryLogind extends Logind {
  /** PrepareForShutdown. */
  prepareForShutdown(isShuttingDown: boolean): void;
  /** How many locks hold up a shutdown. */
  locks(): number;
  /** The connections of all who watch or hold a lock are lost. */
  restart(): void;
}

export interface MemoryLogindOptions {
  readonly inhibitDelayMs?: number;
}

export function createMemoryLogind({ inhibitDelayMs = 5_000 }: MemoryLogindOptions = {}): MemoryLogind {
  const watchers = new Set<{ readonly tell: (isShuttingDown: boolean) => void; readonly fail: (error: Error) => void }>();
  const locks = new Set<() => void>();
  let delayMs = inhibitDelayMs;
  let isShuttingDown = false;
  return {
    inhibitDelayMs: async () => delayMs,
    async overrideInhibitDelay(ms) {
      delayMs = ms;
    },
    async inhibitShutdown(): Promise<InhibitLock> {
      if (isShuttingDown) throw new Error("The operation inhibition has been requested for is already running");
      const lost = Promise.withResolvers<void>();
      const end = (): void => {
        locks.delete(end);
        lost.resolve();
      };
      locks.add(end);
      return { lost: lost.promise, release: async () => end() };
    },
    async watchShutdown(tell, signal) {
      if (signal.aborted) return;
      const over = Promise.withResolvers<void>();
      const watcher = { tell, fail: over.reject };
      watchers.add(watcher);
      const end = (): void => over.resolve();
      signal.addEventListener("abort", end, { once: true });
      tell(isShuttingDown);
      try {
        await over.promise;
      } finally {
        watchers.delete(watcher);
        signal.removeEventListener("abort", end);
      }
    },
    prepareForShutdown(now) {
      isShuttingDown = now;
      for (const { tell } of watchers) tell(now);
    },
    locks: () => locks.size,
    restart() {
      for (const { fail } of watchers) fail(new Error("the bus went away"));
      for (const end of locks) end();
    },
  };
}
