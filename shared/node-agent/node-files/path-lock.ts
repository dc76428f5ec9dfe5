/** Serializes file operations on overlapping paths (NF6). */
import { resolve, sep } from "node:path";

export type WithPathLock = <T>(path: string, act: () => Promise<T>) => Promise<T>;

/**
 * Runs `act` after all earlier operations on the path, its ancestors and its descendants. Operations on other paths run concurrently.
 *
 * Source: pkg/volume/util/nestedpendingoperations. Differs from upstream, which rejects the second operation and retries it later.
 */
export function createPathLock(): WithPathLock {
  const pending = new Set<{ readonly place: string; readonly ended: Promise<unknown> }>();
  return async (path, act) => {
    const place = resolve(path);
    const before = [...pending].filter((other) => other.place === place || isBelow(other.place, place) || isBelow(place, other.place));
    const acting = Promise.all(before.map(({ ended }) => ended)).then(act);
    const own = { place, ended: acting.catch(() => undefined) };
    pending.add(own);
    try {
      return await acting;
    } finally {
      pending.delete(own);
    }
  };
}

/** Whether `path` is below `base`. Both must be resolved paths. */
function isBelow(base: string, path: string): boolean {
  return path.startsWith(base.endsWith(sep) ? base : `${base}${sep}`);
}
