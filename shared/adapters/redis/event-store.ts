/** What the controllers have told of late (informer §8.3). */
import type { EventStore, ToldHappening } from "../../ports/store.ts";
import { asList, asNumber, asText } from "./connection.ts";
import type { Context } from "./context.ts";

export function createEventStore({ connection, names, now }: Context): EventStore {
  return {
    async correlateEvents(controller, happenings) {
      if (happenings.length === 0) return [];
      const groups = [...new Map(happenings.map((each) => [each.group, each])).values()];
      const number = new Map(groups.map(({ group }, i) => [group, String(i + 1)]));
      const asArgs = ({ group, key, nanos }: ToldHappening): readonly string[] => [number.get(group) ?? "", key, nanos];
      const args = [
        now(),
        "",
        String(groups.length),
        ...groups.flatMap(({ source, group }) => [source, group]),
        ...happenings.flatMap(asArgs),
      ];
      const reply = asList(await connection.run("correlateEvents", [names.epoch, ...names.events(controller)], args));
      return happenings.map((_, i) => {
        const [nanos, count, isCombined, isHeldBack] = reply.slice(4 * i, 4 * i + 4);
        return { nanos: asText(nanos), count: asNumber(count), isCombined: isCombined === 1, isHeldBack: isHeldBack === 1 };
      });
    },
  };
}
