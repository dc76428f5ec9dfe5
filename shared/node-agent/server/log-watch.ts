import { watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import type { Clock } from "@deltaloop/base";

/** Waits for changes in a log directory. */
export interface LogWatch {
  /** Resolves when something has changed since the last call, or after `CHECK_MS`; rejects with the signal's reason. */
  changed(): Promise<void>;
  close(): void;
}

/**
 * Interval between checks, and thus the delay until the end of a container is noticed. Source: cri-client pkg/logs/logs.go
 * logForceCheckPeriod.
 */
export const CHECK_MS = 1_000;

/** Polls every second if no inotify watch is available. @param signal rejects pending waits with its reason */
export function watchLogDirectory(directory: string, clock: Clock, signal: AbortSignal): LogWatch {
  let wake = new AbortController();
  const onChange = (): void => wake.abort();
  signal.addEventListener("abort", onChange);
  const watcher = watcherOf(directory, onChange);
  return {
    async changed() {
      signal.throwIfAborted();
      // Only an abort of `signal` rejects the wait.
      await clock.after(CHECK_MS, wake.signal).catch(() => undefined);
      signal.throwIfAborted();
      wake = new AbortController();
    },
    close() {
      signal.removeEventListener("abort", onChange);
      watcher?.close();
    },
  };
}

function watcherOf(directory: string, onChange: () => void): FSWatcher | undefined {
  try {
    const watcher = watch(directory, onChange);
    watcher.on("error", () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
