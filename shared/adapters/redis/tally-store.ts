/** What became of the items that came (informer §16): one hash, fields `<resource>:<lane>:<fate or "received">`. */
import { CACHED_RESOURCES, tableOf } from "../../api/resources.ts";
import type { CachedResource } from "../../api/resources.ts";
import { FATES } from "../../ports/store/tallies.ts";
import type { Ended, LaneTally, TallyStore } from "../../ports/store/tallies.ts";
import { asList, asPairs } from "./connection.ts";
import type { Context } from "./context.ts";

const RESOURCES: readonly LaneTally["resource"][] = [...CACHED_RESOURCES, "unknown"];

/** How scripts are told where to count. */
export function tallyPlace(resource: CachedResource | "unknown", lane: number): string {
  return `${resource}:${lane}:`;
}

/** ARGV of what ended elsewhere; all empty when nothing did. */
export function endedArgs(ended: Ended | undefined): readonly string[] {
  if (ended === undefined) return ["", "", "0"];
  return [tallyPlace(ended.resource ?? "unknown", ended.lane ?? 0), ended.fate, String(ended.items)];
}

export function createTallyStore({ connection, names, now }: Context): TallyStore {
  return {
    async tallies() {
      const counts = new Map(asPairs(asList(await connection.run("tallies", [names.epoch, names.tally], [now(), ""]))));
      const places = new Set([...counts.keys()].map((field) => field.slice(0, field.lastIndexOf(":") + 1)));
      return RESOURCES.flatMap((resource) =>
        [...places]
          .filter((place) => place.startsWith(`${resource}:`))
          .map((place) => ({ place, lane: Number(place.split(":")[1]) }))
          .toSorted((a, b) => a.lane - b.lane)
          .map(({ place, lane }) => {
            const count = (what: string): number => Number(counts.get(place + what) ?? 0);
            return { resource, lane, received: count("received"), fates: tableOf(FATES, count) };
          }),
      );
    },
  };
}
