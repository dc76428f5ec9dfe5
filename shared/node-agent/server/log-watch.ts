import { watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import type { Clock } from "@deltaloop/base";

/** Says when it is worth reading on. */
export interface LogWatch {
  /** Resolves when something in the directory changed since the last call, and after a while without; rejects when it is to end. */
  changed(): Promise<void>;
  close(): void;
}

/** Also how long the end of a container may go unnoticed. Source: cri-client pkg/logs/logs.go logForceCheckPeriod. */
export const CHECK_MS = 1_000;

/**
 * Where the machine has no watch left to give, it looks each second.
 * @param signal rejects pending waits with its reason
 */
export function watchLogDirectory(directory: string, clock: Clock, signal: AbortSignal): LogWatch {
  let wake = new AbortController();
  const awake = (): void => wake.abort();
  signal.addEventListener("abort", awake);
  const watcher = watcherOf(directory, awake);
  return {
    async changed() {
      signal.throwIfAborted();
      // The wait ends by an abort; a clock rejects for no other reason.
      await clock.after(CHECK_MS, wake.signal).catch(() => undefined);
      signal.throwIfAborted();
      wake = new AbortController();
    },
    close() {
      signal.removeEventListener("abort", awake);
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
