/** Reports saves of files. Watches their folders, because many editors replace a file instead of writing to it. */
import { statSync, watch } from "node:fs";
import type { FSWatcher } from "node:fs";
import { dirname, join } from "node:path";

/** An editor makes several changes for one save. */
const SETTLE_MS = 50;

export interface WatchedFiles {
  /** Absolute paths of all files whose saves are reported from now on. */
  set(files: readonly string[]): void;
  close(): void;
}

/** Calls `saved` once for several changes within 50 ms, with the path of the last. */
export function watchFiles(saved: (file: string) => void): WatchedFiles {
  let files = new Set<string>();
  const folders = new Map<string, FSWatcher>();
  let timer: NodeJS.Timeout | undefined;
  const changed = (file: string): void => {
    if (!files.has(file)) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      // An editor may empty a file before it writes it.
      if (statSync(file, { throwIfNoEntry: false })?.size !== 0) saved(file);
    }, SETTLE_MS);
  };
  return {
    set(paths) {
      files = new Set(paths);
      for (const folder of new Set(paths.map((path) => dirname(path)))) {
        if (folders.has(folder)) continue;
        const watcher = watch(folder, (_, name) => name !== null && changed(join(folder, name)));
        watcher.on("error", () => undefined); // the folder was removed
        folders.set(folder, watcher);
      }
    },
    close() {
      clearTimeout(timer);
      for (const watcher of folders.values()) watcher.close();
    },
  };
}
