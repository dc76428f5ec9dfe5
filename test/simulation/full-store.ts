/**
 * A Store at its memory limit, over the memory Store (informer §11.10): what Redis' scripts refuse or leave out. FU5 is not modelled,
 * because the memory Store keeps no former epochs.
 */
import { applyItem, countsMoved } from "../../shared/store/memory/store/apply-item.ts";
import type { Step } from "../../shared/store/memory/store/apply-item.ts";
import type { LaneData, MemoryData, ResourceData } from "../../shared/store/memory/store/data.ts";
import { markSuspect } from "../../shared/store/memory/store/epochs.ts";
import { createRing } from "../../shared/store/memory/store/ring.ts";
import { storeTime } from "../../shared/store/memory/store/store-time.ts";
import { compareResourceVersions } from "../../shared/kube/objects/resource-version.ts";
import type { Clock } from "../../shared/base/clock.ts";
import type { ItemChange, ItemOutcome, PackHeader, Store } from "../../shared/store/ports/store.ts";

/** FU4: a checkpoint reports `full` for this time after a refusal. */
const REPORTED_MS = 10_000;
const FULL = "the store is full: no room for received objects";

export interface FullStoreOptions {
  readonly data: MemoryData;
  /** The clock of the Store's server. */
  readonly clock: Clock;
  /** Switches FU2 off: puts are left out without closing the gate. */
  readonly forgetsPuts: boolean;
  readonly onFault: (what: string) => void;
}

export class FullStore {
  readonly #options: FullStoreOptions;
  #refusedMs = Number.NEGATIVE_INFINITY;
  isFull = false;

  constructor(options: FullStoreOptions) {
    this.#options = options;
  }

  /** @returns `store` with the memory limit */
  over(store: Store): Store {
    const { data, onFault } = this.#options;
    const refuse = (): never => {
      this.#note();
      onFault("full Store: call refused");
      throw new Error("OOM command not allowed when used memory > 'maxmemory'.");
    };
    const whenRoom =
      <P extends readonly unknown[], R>(verb: (...parameters: P) => Promise<R>) =>
      async (...parameters: P): Promise<R> =>
        this.isFull ? refuse() : await verb(...parameters);
    return {
      ...store,
      checkpoint: async (request) => {
        if (this.isFull) this.#note();
        const answer = await store.checkpoint(request);
        const sinceMs = this.#nowMs() - this.#refusedMs;
        return answer.kind === "ok" && sinceMs >= 0 && sinceMs < REPORTED_MS ? { ...answer, full: true } : answer;
      },
      openFence: (request) => store.openFence(this.isFull ? { ...request, grows: false } : request),
      applyPack: async (pack, items, options) => {
        if (!this.isFull) return await store.applyPack(pack, items, options);
        this.#note();
        const place = placeOf(data, pack);
        const kept = items.flatMap((item, index) => (item.type === "put" ? [] : [{ item, index }]));
        if (!place || kept.length === items.length) return await store.applyPack(pack, items, options);
        if (options.leaveOut !== true && !place.lane.frozen) return refuse();
        const { commit, ...others } = options;
        // Before the commit, which must not raise the watermark to that of a later message.
        const wasFrozen = place.lane.frozen;
        place.lane.frozen ||= !this.#options.forgetsPuts;
        const answer = await store.applyPack(
          pack,
          kept.map(({ item }) => item),
          commit ? { ...others, commit: {} } : others,
        );
        place.lane.frozen = wasFrozen;
        if (answer.kind !== "applied" && answer.kind !== "retry") return answer;
        const end = answer.kind === "retry" && kept[answer.index] ? (kept[answer.index]?.index ?? items.length) : items.length;
        const byIndex = new Map(kept.map(({ index }, at) => [index, answer.outcomes[at]]));
        if (answer.kind === "retry" && end > 0 && options.part !== undefined) place.lane.part = options.part; // as the script does
        const outcomes = items.slice(0, end).map((_, index): ItemOutcome => byIndex.get(index) ?? "full");
        if (outcomes.includes("full")) {
          onFault("full Store: items left out");
          if (!this.#options.forgetsPuts) this.#leftOut(pack, place.lane);
        }
        return answer.kind === "retry" ? { ...answer, index: end, outcomes } : { ...answer, outcomes };
      },
      applyManifest: async (pack, manifest) => {
        if (this.isFull) this.#note();
        const answer = await store.applyManifest(pack, manifest);
        const resource = data.epoch?.resources.get(pack.resource);
        if (this.isFull && answer.kind === "needed" && resource) {
          for (const key of answer.keys) resource.needed.delete(key);
          this.#sweep(pack, resource, manifest);
        }
        return answer;
      },
      registerIntents: whenRoom(store.registerIntents),
      add: whenRoom(store.add),
      resync: whenRoom(store.resync),
      correlateEvents: whenRoom(store.correlateEvents),
      writeThrough: async (run, write) => {
        const resource = data.epoch?.resources.get(write.resource);
        const grows = write.items.some((item) => item.type === "put" && isNews(resource, item));
        const notes = write.gone.length + (write.marks?.length ?? 0) + (write.records?.length ?? 0);
        return this.isFull && (grows || notes > 0) ? refuse() : await store.writeThrough(run, write);
      },
    };
  }

  #nowMs(): number {
    const { data, clock } = this.#options;
    return storeTime(data.epoch?.clock, clock.now()).nowMs;
  }

  #note(): void {
    this.#refusedMs = this.#nowMs();
  }

  /** FU2: only a list that begins after this delivers what was left out. */
  #leftOut(pack: Pick<PackHeader, "resource">, lane: LaneData): void {
    lane.frozen = true;
    markSuspect(this.#options.data, pack.resource, FULL);
  }

  /** FU3: the deletes make room for the missing objects. */
  #sweep(
    pack: Pick<PackHeader, "resource" | "lane">,
    resource: ResourceData,
    { sweep, counts, listRV }: Parameters<Store["applyManifest"]>[1],
  ): void {
    const { epoch } = this.#options.data;
    const lane = resource.lanes[pack.lane];
    if (!epoch || !lane || countsMoved(epoch, counts)) return;
    const nowMs = this.#nowMs();
    const step: Step = { epoch, name: pack.resource, resource, ring: createRing(epoch, nowMs), nowMs, source: "stream" };
    for (const item of sweep) applyItem(step, { ...item, rv: listRV });
    this.#leftOut(pack, lane);
  }
}

/** The lane of a message, if the Store has not applied it (A1 to A3). */
function placeOf(
  data: MemoryData,
  pack: Omit<PackHeader, "kind">,
): { readonly resource: ResourceData; readonly lane: LaneData } | undefined {
  const resource = data.epoch?.record.epoch === pack.epoch ? data.epoch.resources.get(pack.resource) : undefined;
  const lane = resource?.fence === pack.fence ? resource.lanes[pack.lane] : undefined;
  return resource && lane && pack.sequence > lane.last && !lane.holes.has(pack.sequence) ? { resource, lane } : undefined;
}

/** Whether a put would change a row. */
function isNews(resource: ResourceData | undefined, { key, rv }: ItemChange): boolean {
  const row = resource?.lanes.map(({ rows }) => rows.get(key)).find((each) => each !== undefined);
  return row === undefined || compareResourceVersions(row.rv, rv) < 0;
}
