/** Fates of items (informer §16): one hash, fields `<resource>:<lane>:<fate or "received">`. */
import { tableOf } from "@deltaloop/kube/objects";
import type { View } from "@deltaloop/kube/objects";
import { FATES } from "../ports/tallies.ts";
import type { Ended, TallyStore } from "../ports/tallies.ts";
import { asPairs } from "./connection.ts";
import type { Context } from "./context.ts";
import type { ArgsOf } from "./scripts/layouts.ts";

/** Field prefix under which scripts count. */
export function tallyPlace(resource: View | "unknown", lane: number): string {
  return `${resource}:${lane}:`;
}

/** Arguments for items that end outside of apply. */
export function endedArgs(ended: Ended | undefined): Pick<ArgsOf<"quarantine">, "place" | "fate" | "ended"> {
  if (ended === undefined) return { place: "", fate: "", ended: 0 };
  return { place: tallyPlace(ended.resource ?? "unknown", ended.lane ?? 0), fate: ended.fate, ended: ended.items };
}

export function createTallyStore(context: Context): TallyStore {
  return {
    async tallies() {
      const counts = new Map(asPairs(await context.run(context.keys("tallies", { tally: context.names.tally }).call("", {}))));
      const places = new Set([...counts.keys()].map((field) => field.slice(0, field.lastIndexOf(":") + 1)));
      return [...context.catalog.views, "unknown" as const].flatMap((resource) =>
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
