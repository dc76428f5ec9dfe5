/** Memory of recently emitted Events (informer §8.3). */
import type { EventStore } from "../ports/store.ts";
import { asList, asNumber, asText } from "./connection.ts";
import type { Context } from "./context.ts";

export function createEventStore(context: Context): EventStore {
  return {
    async correlateEvents(controller, happenings) {
      if (happenings.length === 0) return [];
      const sources = [...new Map(happenings.map(({ source, group }) => [group, { source, group }])).values()];
      const number = new Map(sources.map(({ group }, i) => [group, i + 1]));
      const call = context.keys("correlateEvents", context.names.events(controller)).call("", {
        sources,
        happenings: happenings.map(({ group, key, nanos }) => ({ source: number.get(group) ?? 0, key, nanos })),
      });
      const reply = asList(await context.run(call));
      return happenings.map((_, i) => {
        const [nanos, count, isCombined, isHeldBack] = reply.slice(4 * i, 4 * i + 4);
        return { nanos: asText(nanos), count: asNumber(count), isCombined: isCombined === 1, isHeldBack: isHeldBack === 1 };
      });
    },
  };
}
