/**
 * Measures volumes concurrently with pod syncs. A measurement stops before its volume is removed, because an open descriptor would keep
 * the mount busy.
 */
import type { NodeFiles } from "../ports/node-files.ts";
import { NodeFilesError } from "../ports/node-files.ts";
import { diskUsage } from "./disk-usage.ts";
import { ifExists } from "./errors.ts";
import { createFairSemaphore } from "./fair-semaphore.ts";
import type { PodPaths } from "./paths.ts";

/** Number of concurrent walks. It leaves two of libuv's four threads for pods that start and end. */
const WALKS_MAX = 2;

export interface VolumeUsages extends Pick<NodeFiles, "volumeUsage"> {
  /** Aborts the measurements of the pod's volumes, and runs `act` while no new measurement can start. */
  without<T>(uid: string, act: () => Promise<T>): Promise<T>;
}

export function volumeUsages(paths: PodPaths): VolumeUsages {
  const semaphore = createFairSemaphore(WALKS_MAX);
  const walks = new Set<{ readonly uid: string; readonly abort: AbortController; readonly ended: Promise<unknown> }>();
  const removing = new Set<string>();
  return {
    async volumeUsage(place) {
      const { uid } = place;
      if (removing.has(uid)) return undefined;
      const abort = new AbortController();
      const walking = diskUsage(paths.volume(place), { semaphore, signal: abort.signal });
      const own = { uid, abort, ended: walking.catch(() => undefined) };
      walks.add(own);
      try {
        return await ifExists(walking);
      } catch (error) {
        if (abort.signal.aborted) return undefined;
        throw error;
      } finally {
        walks.delete(own);
      }
    },

    async without(uid, act) {
      removing.add(uid);
      try {
        const own = [...walks].filter((walk) => walk.uid === uid);
        for (const { abort } of own) abort.abort(new NodeFilesError("the pod's directory is being removed"));
        await Promise.all(own.map(({ ended }) => ended));
        return await act();
      } finally {
        removing.delete(uid);
      }
    },
  };
}
