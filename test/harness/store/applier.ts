/** An applier on the memory Store with one lane per resource; takes message bodies as the watcher sends them. */
import { signedBody, testSigner } from "../../support/signer.ts";
import type { Cached } from "../../../shared/kube/objects/cached.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CACHED_RESOURCES, type CachedResource, type Controller, type ObjectKey } from "../../../shared/kube/objects/resources.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { applyMessage, type Verdict } from "../../../shared/controllers/cache/applier.ts";
import type { EnvelopeItem } from "../../../shared/controllers/cache/messages/envelope.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import type { WriteThroughPorts } from "../../../shared/controllers/cache/write-through.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import type { KubeReader } from "../../../shared/kube/client/kube.ts";
import type { ManifestRow, Row, Store, Taken } from "../../../shared/store/ports/store.ts";
import { keyOf, listed } from "../../support/builders.ts";
import { recordingLog } from "../../unit/recording-log.ts";

const EPOCH = "e1";
const FENCE = "100";

export interface MessageFields {
  readonly resource?: CachedResource;
  /** The sequence number. Default: the lane's next one. */
  readonly sq?: number;
  readonly generation?: number;
  readonly fence?: string;
}

/** `item(pod, "M")`: includes the object unless stated otherwise. */
export function item(object: Cached, t: EnvelopeItem["t"], more: Partial<EnvelopeItem> = {}): EnvelopeItem {
  const { uid, resourceVersion: rv } = "metadata" in object ? object.metadata : object;
  return { t, key: keyOf(object), uid, rv, o: object, ...more };
}

export class ApplierHarness {
  readonly clock = createVirtualClock(0);
  readonly digester = createDigester("a key for tests");
  readonly log = recordingLog();
  readonly rung: Doorbell[] = [];
  /** Objects that live reads return. */
  readonly live = new Map<ObjectKey, KubeObject>();
  /** Tests may replace it by a Store that fails or changes during a call. */
  store: Store;
  affectedKeys = CORE_CACHE.affectedKeys;
  readonly #sequences = new Map<CachedResource, number>();
  #generation = 0;
  #messages = 0;

  private constructor() {
    this.store = createMemoryStore({
      deployment: "test",
      cluster: "c1",
      identity: cacheIdentity(this.digester),
      holeLimitMs: 60_000,
      clock: this.clock,
    });
  }

  /** An empty cache with all resources synced. */
  static async synced(): Promise<ApplierHarness> {
    const harness = new ApplierHarness();
    await harness.store.openEpoch({ ...cacheIdentity(harness.digester), epoch: EPOCH, clusterUid: "cluster", fence: FENCE });
    await harness.openFence(FENCE);
    for (const resource of CACHED_RESOURCES) await harness.relist(resource, [], "0");
    return harness;
  }

  async openFence(fence: string): Promise<void> {
    for (const resource of CACHED_RESOURCES) await this.store.openFence({ epoch: EPOCH, fence, resource, lanes: 1 });
  }

  async openGeneration(resource: CachedResource): Promise<number> {
    const opened = await this.store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
    if (opened.kind !== "open") throw new Error(opened.kind);
    return (this.#generation = opened.generation);
  }

  async relist(resource: CachedResource, objects: readonly Cached[], listRV: string): Promise<void> {
    await this.openGeneration(resource);
    if (objects.length > 0)
      await this.apply(
        this.list(
          objects.map((object) => item(object, "A")),
          listRV,
          { resource },
        ),
      );
    await this.apply(this.manifest(objects.map(listed), listRV, { resource }));
  }

  /** The body of one message. */
  pack(items: readonly unknown[], fields: MessageFields = {}): string {
    return this.#body({ ...fields, fields: { k: "D", items } });
  }

  list(items: readonly unknown[], listRV: string, fields: MessageFields = {}): string {
    return this.#body({ ...fields, fields: { k: "L", L: listRV, items } });
  }

  watermark(rv: string, fields: MessageFields = {}): string {
    return this.#body({ ...fields, fields: { k: "W", rv } });
  }

  manifest(
    rows: readonly ManifestRow[],
    listRV: string,
    fields: MessageFields & { readonly part?: number; readonly parts?: number } = {},
  ): string {
    const { part = 1, parts = 1, ...rest } = fields;
    return this.#body({ ...rest, fields: { k: "M", L: listRV, part, parts, rows } });
  }

  #body({
    resource = "pods",
    sq,
    generation = this.#generation,
    fence = FENCE,
    fields,
  }: MessageFields & { readonly fields: object }): string {
    const sequence = sq ?? (this.#sequences.get(resource) ?? 0) + 1;
    this.#sequences.set(resource, Math.max(sequence, this.#sequences.get(resource) ?? 0));
    return signedBody("c1", { v: 2, c: "c1", r: resource, e: EPOCH, f: fence, g: generation, ln: 0, sq: sequence, ts: 0, ...fields });
  }

  async apply(body: string, receiveCount = 1): Promise<Verdict> {
    const doorbells = { ring: async (bells: readonly Doorbell[]) => void this.rung.push(...bells) };
    const reader = this.#reader();
    const cluster = { store: this.store, signer: testSigner("c1"), doorbells, reader: reader as KubeReader }; // an applier reads only single objects
    return applyMessage(
      {
        cluster: (cid) => (cid === "c1" ? cluster : undefined),
        clusters: ["c1"],
        registry: { ...CORE_CACHE, affectedKeys: this.affectedKeys },
        digester: this.digester,
        clock: this.clock,
        log: this.log,
      },
      { id: `message-${++this.#messages}`, body, receiveCount },
    );
  }

  writeThroughPorts(): WriteThroughPorts {
    return {
      store: this.store,
      doorbells: { ring: async (bells) => void this.rung.push(...bells) },
      registry: CORE_CACHE,
      digester: this.digester,
      reader: this.#reader(),
      log: this.log,
    };
  }

  #reader(): Pick<KubeReader, "get"> {
    return { get: async (_, namespace, name) => this.live.get(`${namespace}/${name}`) };
  }

  async row(key: ObjectKey, resource: CachedResource = "pods"): Promise<Row | undefined> {
    return (await this.store.readIndex({ rows: [{ resource, key }] })).rows[0]?.row;
  }

  async keys(resource: CachedResource = "pods"): Promise<readonly ObjectKey[]> {
    return (await this.store.readLane(resource, 0)).rows.map(({ key }) => key);
  }

  async health(resource: CachedResource = "pods") {
    const result = await this.store.checkpoint({ epoch: EPOCH, fence: FENCE, sent: {}, beat: 1, answered: 0 });
    if (result.kind !== "ok") throw new Error(result.kind);
    return result.resources.find((health) => health.resource === resource);
  }

  async watermarkOf(resource: CachedResource = "pods"): Promise<string | undefined> {
    return (await this.health(resource))?.watermarks[0];
  }

  async dirty(controller: Controller): Promise<readonly ObjectKey[]> {
    return (await this.store.queued(controller)).filter(({ readyAtMs }) => readyAtMs !== undefined).map(({ key }) => key);
  }

  /** Runs every dirty key of `controller` to its end. @returns their number */
  async drain(controller: Controller): Promise<number> {
    const keys = await this.dirty(controller);
    for (const key of keys) {
      await this.clock.advance(1_500);
      const run = await this.take(controller, key);
      await this.store.done(run, { kind: "ok" });
    }
    return keys.length;
  }

  async take(controller: Controller, key: ObjectKey): Promise<Taken> {
    const run: Taken = { epoch: EPOCH, controller, key, token: `token-${++this.#messages}` };
    const first = await this.store.take(run, {});
    const result = first.kind === "moved" ? await this.store.take(run, first) : first;
    if (result.kind !== "ok") throw new Error(`take ${key}: ${JSON.stringify(result)}`);
    return run;
  }

  /** Errors and warnings as `message what: why`. */
  get complaints(): readonly string[] {
    return this.log.lines
      .filter(({ level }) => level === "error" || level === "warn")
      .map(({ message, fields }) => `${message} ${JSON.stringify(fields)}`);
  }
}
