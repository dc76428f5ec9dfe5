/** The ground of protocol seeds: the memory Store, which needs no I/O. */
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import type { MemoryData } from "../../../shared/store/memory/store/data.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { flush, snapshot } from "../losses.ts";
import { storeOptions } from "../schedules/ground.ts";
import type { Ground } from "../schedules/ground.ts";

/** `without` returns the Store without one of its rules. */
export function createMemoryGround(without: (store: Store, data: MemoryData) => Store = (store) => store): Ground {
  const options = storeOptions("memory");
  const data = createMemoryData();
  return {
    store: without(createMemoryStore(options, data), data),
    clock: options.clock,
    watermark: async (resource, lane) => data.epoch?.resources.get(resource)?.lanes[lane]?.watermark ?? "0",
    intents: async () => {
      const pending = (ops: Iterable<{ readonly intent: { readonly state: string } }>): number =>
        [...ops].filter(({ intent }) => intent.state === "pending").length;
      const owners = new Set([...(data.epoch?.intents.keys() ?? []), ...(data.epoch?.drawn.keys() ?? [])]);
      return new Map([...owners].map((owner) => [owner, pending(data.epoch?.intents.get(owner)?.values() ?? [])]));
    },
    snapshot: async () => {
      const back = snapshot(data);
      return async () => back();
    },
    failOver: async () => data.epoch?.resources.forEach((resource) => (resource.primary = "a1b2")),
    clear: async () => flush(data),
  };
}
