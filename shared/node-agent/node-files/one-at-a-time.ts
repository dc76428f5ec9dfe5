/** Keeps what two turns, or a turn and housekeeping, do at one place of the disk apart (NF6). */
import { resolve, sep } from "node:path";

export type AtPlace = <T>(place: string, act: () => Promise<T>) => Promise<T>;

/**
 * Whatever was asked for before at `place`, above or below it comes to its end first; at other places things go on side by side.
 *
 * Source: pkg/volume/util/nestedpendingoperations. Differs from upstream, which refuses the second and comes back.
 */
export function oneAtATime(): AtPlace {
  const going = new Set<{ readonly place: string; readonly ended: Promise<unknown> }>();
  return async (asked, act) => {
    const place = resolve(asked);
    const before = [...going].filter((other) => other.place === place || isBelow(other.place, place) || isBelow(place, other.place));
    const acting = Promise.all(before.map(({ ended }) => ended)).then(act);
    const own = { place, ended: acting.catch(() => undefined) };
    going.add(own);
    try {
      return await acting;
    } finally {
      going.delete(own);
    }
  };
}

/** Of two paths that are resolved. */
function isBelow(base: string, path: string): boolean {
  return path.startsWith(base.endsWith(sep) ? base : `${base}${sep}`);
}
