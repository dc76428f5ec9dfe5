/** A logind in memory, with controls for tests. */
import type { InhibitLock, Logind } from "../../shared/node-agent/ports/logind.ts";

export interface MemoryLogind extends Logind {
  /** Emits the signal PrepareForShutdown. */
  prepareForShutdown(isShuttingDown: boolean): void;
  /** The number of inhibitor locks. */
  locks(): number;
  /** Breaks the connections of all watchers and lock holders. */
  restart(): void;
}

export interface MemoryLogindOptions {
  readonly inhibitDelayMs?: number;
}

export function createMemoryLogind({ inhibitDelayMs = 5_000 }: MemoryLogindOptions = {}): MemoryLogind {
  const watchers = new Set<{ readonly notify: (isShuttingDown: boolean) => void; readonly fail: (error: Error) => void }>();
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
    async watchShutdown(notify, signal) {
      if (signal.aborted) return;
      const over = Promise.withResolvers<void>();
      const watcher = { notify, fail: over.reject };
      watchers.add(watcher);
      const end = (): void => over.resolve();
      signal.addEventListener("abort", end, { once: true });
      notify(isShuttingDown);
      try {
        await over.promise;
      } finally {
        watchers.delete(watcher);
        signal.removeEventListener("abort", end);
      }
    },
    prepareForShutdown(now) {
      isShuttingDown = now;
      for (const { notify } of watchers) notify(now);
    },
    locks: () => locks.size,
    restart() {
      for (const { fail } of watchers) fail(new Error("the bus connection closed"));
      for (const end of locks) end();
    },
  };
}
