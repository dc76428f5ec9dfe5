/** Measuring volumes beside everything else, and letting go of them: what is open in a mount keeps it from being unmounted. */
import type { NodeFiles } from "../ports/node-files.ts";
import { NodeFilesError } from "../ports/node-files.ts";
import { diskUsage } from "./disk-usage.ts";
import { ifThere } from "./errors.ts";
import { fairTurns } from "./fair-turns.ts";
import type { PodPaths } from "./paths.ts";

/** Of libuv's four threads; the rest is for pods that start and end. */
const WALKS_AT_ONCE = 2;

export interface VolumeUsages extends Pick<NodeFiles, "volumeUsage"> {
  /** Runs `act` while nothing of the pod's volumes is measured. */
  without<T>(uid: string, act: () => Promise<T>): Promise<T>;
}

export function volumeUsages(paths: PodPaths): VolumeUsages {
  const turns = fairTurns(WALKS_AT_ONCE);
  const walks = new Set<{ readonly uid: string; readonly abort: AbortController; readonly ended: Promise<unknown> }>();
  const leaving = new Set<string>();
  return {
    async volumeUsage(place) {
      const { uid } = place;
      if (leaving.has(uid)) return undefined;
      const abort = new AbortController();
      const walking = diskUsage(paths.volume(place), { turns, signal: abort.signal });
      const own = { uid, abort, ended: walking.catch(() => undefined) };
      walks.add(own);
      try {
        return await ifThere(walking);
      } catch (error) {
        if (abort.signal.aborted) return undefined;
        throw error;
      } finally {
        walks.delete(own);
      }
    },

    async without(uid, act) {
      leaving.add(uid);
      try {
        const own = [...walks].filter((walk) => walk.uid === uid);
        for (const { abort } of own) abort.abort(new NodeFilesError("the pod's directory is being removed"));
        await Promise.all(own.map(({ ended }) => ended));
        return await act();
      } finally {
        leaving.delete(uid);
      }
    },
  };
}
