/**
 * All controllers, one sync at a time: an in-memory API server over HTTP, and a cache in Redis or in memory that the applier fills.
 * Counts the cost of a sync: Redis commands and bytes, arguments and replies inside Redis scripts, Store verbs, rows, requests.
 */
import { isBuiltIn } from "../../../shared/kube/objects/resources.ts";
import { testSigner } from "../../support/signer.ts";
import { Redis, type Command } from "ioredis";

import { createKubeHttp } from "../../../shared/kube/http/kube-http.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { deploymentKeys, type EpochKeys } from "../../../shared/store/redis/keys.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { compareResourceVersions } from "../../../shared/kube/objects/resource-version.ts";
import { LANES, laneOf } from "../../../shared/store/lane.ts";
import { CACHED_RESOURCES, objectKey, RESOURCES } from "../../../shared/kube/objects/resources.ts";
import type { CachedResource, Controller, ObjectKey } from "../../../shared/kube/objects/resources.ts";
import { createSigner, type Signer } from "../../../shared/store/signer.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { applyMessage, type ApplierPorts } from "../../../shared/controllers/cache/applier.ts";
import { ENVELOPE_VERSION, type Envelope, type EnvelopeItem } from "../../../shared/controllers/cache/messages/envelope.ts";
import { cacheIdentity } from "../../../shared/controllers/cache/identity.ts";
import { encodePack } from "../../../shared/controllers/cache/messages/pack-codec.ts";
import { inSession } from "../../../shared/controllers/kit/sync/in-session.ts";
import { runKey } from "../../../shared/controllers/kit/sync/worker.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { createApiServer, type ApiServer, type RequestRecord } from "../../../shared/api-server/api-server.ts";
import { serveHttp } from "../../../shared/api-server/http.ts";
import type { Clock } from "../../../shared/base/clock.ts";
import type { Doorbell } from "../../../shared/store/ports/doorbells.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { HOLE_LIMIT_MS } from "../../../shared/base/times.ts";
import { silentLog } from "../../support/silent-log.ts";
import { rawClientIn, type RawClient } from "../../support/raw-client.ts";
import { HANDLERS, observedStore } from "./observed.ts";

/** The cost of one sync. */
export interface Cost {
  /** Store verbs, in order. */
  readonly verbs: readonly string[];
  /** Redis commands. */
  readonly commands: number;
  readonly bytesRead: number;
  /** Size of the commands inside Redis scripts: the number of arguments and of reply elements. */
  readonly scripted: number;
  /** Rows that Store verbs returned. */
  readonly rows: number;
  /** Requests to the API server as `create pods`, without Events. */
  readonly requests: readonly string[];
}

/** Counts the bytes on the wire. An EVAL that follows an EVALSHA unknown to the server counts as the same command. */
class CountingRedis extends Redis {
  commands = 0;

  /** Makes each script count the arguments and replies of its commands. */
  override defineCommand(name: string, definition: { readonly lua: string; readonly numberOfKeys?: number }): void {
    const lua = definition.lua.replace(BARE_CALL, COUNTED_CALL);
    if (lua === definition.lua) throw new Error(`${name} does not start with lib/base.lua`);
    super.defineCommand(name, { ...definition, lua });
  }

  override sendCommand(command: Command, stream?: Parameters<Redis["sendCommand"]>[1]): unknown {
    if (command.name !== "eval") this.commands++;
    return super.sendCommand(command, stream);
  }

  get bytesRead(): number {
    return (this.stream as { readonly bytesRead?: number }).bytesRead ?? 0; // a socket
  }
}

const SCRIPTED = "laws:scripted";
const BARE_CALL = "local call, KEYS, ARGV = redis.call, KEYS, ARGV";
const COUNTED_CALL = `
local function call(...)
  local reply = redis.call(...)
  redis.call("INCRBY", "${SCRIPTED}", select("#", ...) + (type(reply) == "table" and #reply or 1))
  return reply
end
local KEYS, ARGV = KEYS, ARGV`;

const EPOCH = "laws";
const FENCE = "1";
const DEPLOYMENT = "laws";
const CLUSTER = "0123456789ab";
/** The digest key, for other readers of the harness's cache. */
export const DIGEST_KEY = "the digest key of the harness";
/** The arguments of `deltaloop keys` for the harness's cache. */
export const CACHE = { deployment: DEPLOYMENT, cluster: CLUSTER } as const;
const ITEMS_PER_MESSAGE = 100;
/** Doorbells that are due later than this are not awaited. */
const DELAY_MS_MAX = 1_000;

export interface CountedSync {
  readonly server: ApiServer;
  /** The API server's URL. */
  readonly url: string;
  /** A client of the cluster, for user requests. */
  readonly person: RawClient;
  readonly store: Store;
  /** The names of the epoch's keys. */
  readonly names: EpochKeys;
  /** Replaces the MAC keys of the watcher and of the functions. Each accepts all of its keys and signs with the first one. */
  rekey(keys: { readonly watcher?: readonly string[]; readonly functions?: readonly string[] }): void;
  /** Applies a message of the watcher to the end. */
  apply(resource: CachedResource, lane: number, content: Content): Promise<void>;
  /** The next message of a lane, as sent to the delta queue. */
  message(resource: CachedResource, lane: number, content: Content): string;
  /** Lists a resource again, under the next fence. */
  relist(resource: CachedResource): Promise<void>;
  /** Advances the time; then every lane gets its heartbeat, and the sweeper runs. */
  pass(ms: number): Promise<void>;
  /** Brings the API server's changes since the last call into the cache, and sends doorbells. */
  stream(): Promise<void>;
  /** Like `stream`; returns the applier's cost. */
  heard(): Promise<Cost>;
  /** Runs `key`, which must be queued, and returns the cost. */
  sync(controller: Controller, key: ObjectKey): Promise<Cost>;
  /** Runs queued keys until none is due. */
  settle(): Promise<void>;
  /** Bytes that Redis has allocated. */
  memory(): Promise<number>;
  close(): Promise<void>;
}

/** The fields of an envelope without its header. */
export type Content = Envelope extends infer E ? (E extends Envelope ? Omit<E, HeadField> : never) : never;
type HeadField = "v" | "c" | "r" | "e" | "f" | "g" | "ln" | "sq" | "ts";

/** Starts on an emptied Redis, or without `redisUrl` on the memory Store; everything has been listed once. */
export async function startCountedSync(redisUrl?: string): Promise<CountedSync> {
  const client = redisUrl === undefined ? undefined : new CountingRedis(redisUrl);
  /** Sends requests and drains queues without being counted. */
  const admin = redisUrl === undefined ? undefined : new Redis(redisUrl);
  await admin?.flushall();
  const system = createSystemClock();
  let passedMs = 0;
  const clock: Clock = { now: () => system.now() + passedMs, after: system.after };
  const random = createSeededRandom(1);
  const server = createApiServer({ clock, random, garbageCollection: false });
  const http = await serveHttp(server);
  const digester = createDigester(DIGEST_KEY);
  const options = { ...CACHE, identity: cacheIdentity(digester), holeLimitMs: HOLE_LIMIT_MS, clock };
  const storeOf = (signer: Signer): Store => (client ? createRedisStore(client, { ...options, signer }) : createMemoryStore(options));
  let watcherSigner = testSigner(CLUSTER);
  let signer = watcherSigner;
  let store = storeOf(signer);
  const person = rawClientIn(server);

  const verbs: string[] = [];
  let rows = 0;
  const requests: string[] = [];
  const stopListening = server.onRequest((record) => {
    if (record.userAgent.startsWith("deltaloop/") && record.resource !== "events") requests.push(requestName(record));
  });
  const bells = new Map<string, Doorbell>();
  const doorbells = {
    ring: (rung: readonly Doorbell[]) => {
      for (const bell of rung) if (bell.delayMs < DELAY_MS_MAX) bells.set(`${bell.controller} ${bell.key}`, bell);
      return Promise.resolve();
    },
  };

  const notes = { verb: (verb: string) => void verbs.push(verb), rows: (count: number) => void (rows += count) };
  let observed = observedStore(store, notes);

  const applier: ApplierPorts = {
    cluster: () => ({ store: observed, signer, doorbells, reader: createKubeHttp({ server: http.url, component: "applier" }) }),
    clusters: [CLUSTER],
    registry: CORE_CACHE,
    digester,
    clock,
    log: silentLog,
  };
  const sequences = new Map<string, number>();
  const fences = new Map<CachedResource, string>(CACHED_RESOURCES.map((resource) => [resource, FENCE]));
  const head = (resource: CachedResource, lane: number) => {
    const id = `${resource} ${lane}`;
    const sequence = (sequences.get(id) ?? 0) + 1;
    sequences.set(id, sequence);
    return {
      v: ENVELOPE_VERSION,
      c: CLUSTER,
      r: resource,
      e: EPOCH,
      f: fences.get(resource) ?? "",
      g: 1,
      ln: lane,
      sq: sequence,
      ts: clock.now(),
    } as const;
  };
  const apply = async (body: string): Promise<void> => {
    const verdict = await applyMessage(applier, { id: "laws", body });
    if (verdict.kind !== "ack") throw new Error(verdict.why);
  };

  await store.openEpoch({ epoch: EPOCH, clusterUid: "uid", fence: FENCE, ...cacheIdentity(digester) });
  for (const resource of CACHED_RESOURCES) {
    await store.openFence({ epoch: EPOCH, fence: FENCE, resource, lanes: LANES[resource] });
    await store.openGeneration({ epoch: EPOCH, fence: FENCE, resource });
    for (let lane = 0; lane < LANES[resource]; lane++)
      await apply(encodePack({ ...head(resource, lane), k: "M", L: server.resourceVersion, part: 1, parts: 1, rows: [] }, watcherSigner));
  }

  /** The version of each object in the cache, by resource and key. */
  const heard = new Map<string, { readonly uid: string; readonly rv: string }>();
  /** Applies a bookmark on every lane: the stream is complete up to that version. */
  const bookmark = async (rv: string): Promise<void> => {
    for (const resource of CACHED_RESOURCES)
      for (let lane = 0; lane < LANES[resource]; lane++) await applyContent(resource, lane, { k: "W", rv });
  };
  const changes = async (): Promise<void> => {
    for (const resource of CACHED_RESOURCES) {
      const now = new Map((await person.list<KubeObject>(listPath(resource))).items.map((object) => [keyOf(object), object]));
      const items: EnvelopeItem[] = [];
      for (const [key, object] of now) {
        const { uid, resourceVersion: rv } = object.metadata;
        if (heard.get(`${resource} ${key}`)?.rv === rv) continue;
        heard.set(`${resource} ${key}`, { uid, rv });
        items.push({ t: "M", key, uid, rv, o: strip(resource, object, digester) });
      }
      for (const [id, { uid }] of heard) {
        const [kind, key = ""] = id.split(" ");
        if (kind !== resource || now.has(key)) continue;
        heard.delete(id);
        items.push({ t: "D", key, uid, rv: server.resourceVersion });
      }
      items.sort((a, b) => compareResourceVersions(a.rv, b.rv)); // as a watch delivers them: versions below the watermark are old
      for (const [lane, ofLane] of Map.groupBy(items, ({ key }) => laneOf(key, LANES[resource])))
        for (let at = 0; at < ofLane.length; at += ITEMS_PER_MESSAGE)
          await apply(encodePack({ ...head(resource, lane), k: "D", items: ofLane.slice(at, at + ITEMS_PER_MESSAGE) }, watcherSigner));
    }
  };

  const stream = async (): Promise<void> => {
    const rv = server.resourceVersion;
    await changes();
    await bookmark(rv);
  };

  const run = async (bell: Doorbell): Promise<void> => {
    const { controller } = bell;
    if (!isBuiltIn(controller)) return;
    const api = createKubeHttp({ server: http.url, component: controller });
    const ports = {
      store: observed,
      doorbells,
      reader: api,
      gateway: builtInGateway(api, controller, "act"),
      digester,
      registry: CORE_CACHE,
      clock,
      random,
      log: silentLog,
    };
    await runKey(ports, controller, bell, inSession(HANDLERS[controller]));
  };

  /**
   * A status effect is delayed, so that several share one run. Waits for that time, because an earlier take would start a sync other
   * than the counted one.
   */
  const ready = async (controller: Controller, key: ObjectKey): Promise<void> => {
    const readyAtMs = (await store.queued(controller)).find((queued) => queued.key === key)?.readyAtMs ?? 0;
    await clock.after(Math.max(0, readyAtMs - clock.now()));
  };

  const cost = async (act: () => Promise<void>): Promise<Cost> => {
    const scripted = async (): Promise<number> => Number((await admin?.get(SCRIPTED)) ?? 0);
    const before = { commands: client?.commands ?? 0, bytesRead: client?.bytesRead ?? 0, scripted: await scripted() };
    [verbs.length, requests.length, rows] = [0, 0, 0];
    await act();
    return {
      verbs: [...verbs],
      rows,
      requests: [...requests],
      commands: (client?.commands ?? 0) - before.commands,
      bytesRead: (client?.bytesRead ?? 0) - before.bytesRead,
      scripted: (await scripted()) - before.scripted,
    };
  };

  const message = (resource: CachedResource, lane: number, content: Content): string =>
    encodePack({ ...head(resource, lane), ...content }, watcherSigner);
  const applyContent = (resource: CachedResource, lane: number, content: Content): Promise<void> => apply(message(resource, lane, content));

  return {
    server,
    url: http.url,
    person,
    get store() {
      return store;
    },
    names: deploymentKeys(DEPLOYMENT, CLUSTER).of(EPOCH),
    rekey({ watcher, functions }) {
      if (watcher) watcherSigner = createSigner(watcher, CLUSTER);
      if (functions) {
        signer = createSigner(functions, CLUSTER);
        store = storeOf(signer);
        observed = observedStore(store, notes);
      }
    },
    apply: applyContent,
    message,
    async relist(resource) {
      const fence = String(Number(fences.get(resource)) + 1);
      fences.set(resource, fence);
      await store.openFence({ epoch: EPOCH, fence, resource, lanes: LANES[resource] });
      for (let lane = 0; lane < LANES[resource]; lane++) sequences.delete(`${resource} ${lane}`);
      const opened = await store.openGeneration({ epoch: EPOCH, fence, resource });
      if (opened.kind !== "open") throw new Error(opened.kind);
      const rows = [...heard]
        .map(([id, version]) => ({ id: id.split(" "), ...version }))
        .flatMap(({ id: [of, key = ""], uid, rv }) => (of === resource ? [{ key, uid, rv }] : []));
      for (let lane = 0; lane < LANES[resource]; lane++) {
        const listed = rows.filter(({ key }) => laneOf(key, LANES[resource]) === lane);
        const content = { k: "M", L: server.resourceVersion, part: 1, parts: 1, rows: listed } as const;
        await apply(encodePack({ ...head(resource, lane), g: opened.generation, ...content }, watcherSigner));
      }
    },
    async pass(ms) {
      passedMs += ms;
      await bookmark(server.resourceVersion);
      await doorbells.ring(await store.sweep(EPOCH));
    },
    stream,
    async heard() {
      const rv = server.resourceVersion;
      const heardCost = await cost(changes);
      await bookmark(rv);
      return heardCost;
    },
    async sync(controller, key) {
      const id = `${controller} ${key}`;
      const bell = bells.get(id);
      if (bell === undefined) throw new Error(`no doorbell for ${id}`);
      bells.delete(id);
      await ready(controller, key);
      return await cost(() => run(bell));
    },
    async settle() {
      for (;;) {
        const [next] = bells;
        if (next === undefined) return;
        bells.delete(next[0]);
        await run(next[1]);
        await stream();
      }
    },
    memory: async () => Number(/used_memory:(\d+)/.exec((await admin?.info("memory")) ?? "")?.[1]),
    async close() {
      stopListening();
      client?.disconnect();
      admin?.disconnect();
      await http.close();
      server.close();
    },
  };
}

function requestName({ verb, resource, subresource }: RequestRecord): string {
  return `${verb} ${resource}${subresource === "" ? "" : `/${subresource}`}`;
}

function listPath(resource: CachedResource): string {
  const { group } = RESOURCES[resource];
  return `${group === "" ? "/api/v1" : `/apis/${group}/v1`}/${resource}`;
}

function keyOf({ metadata }: KubeObject): ObjectKey {
  return objectKey(metadata.namespace ?? "", metadata.name);
}
