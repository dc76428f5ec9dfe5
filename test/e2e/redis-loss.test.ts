/**
 * What Redis may lose (informer §11.7, §20): each loss in the middle of three rollouts, on a real control plane and real
 * redis-servers, with watcher and functions as processes of their own.
 *
 * Catches: a loss that nobody notices, or only when a hole has become old; work that stands still because a run that is no more
 * holds its key; a pod created twice because its intent was lost; a cache that is not what the API server has; anything done while
 * the gate is shut.
 */
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createRedisStore } from "../../shared/adapters/redis/redis-store.ts";
import { createDigester } from "../../shared/api/digest.ts";
import { LANES } from "../../shared/api/lane.ts";
import { CACHED_RESOURCES, CONTROLLERS, RESOURCES } from "../../shared/api/resources.ts";
import { createSigner } from "../../shared/api/signer.ts";
import { cacheIdentity } from "../../shared/cache/identity.ts";
import type { Store } from "../../shared/ports/store.ts";
import { OP_DEADLINE_MS } from "../../shared/ports/times.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { AuditEntry, Cluster, Running } from "../support/e2e.ts";
import { momentsOf, most, podsCreated, recordHistory } from "../support/history.ts";
import { startRedisFront } from "../support/redis-front.ts";
import type { RedisFront } from "../support/redis-front.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

const REPLICAS = 6;
/** 25 % of 6, rounded up. */
const ASKED_MAX = 8;
const NAMES = ["web-0", "web-1", "web-2"] as const;
const NAMESPACE = "loss";
const SECRETS = { DELTALOOP_DIGEST_KEY: "a digest key of this test", DELTALOOP_MAC_KEY: "a mac key of this test" };
/**
 * From the end of the fault: until the gates are open for good, and how long none of the three rollouts may go without a write of ours.
 * What the rollouts themselves need is the machine's: "nothing at all" says how much that is.
 */
const SETTLED_MS_MAX = 15_000;
/** A run that has its key when the gate shuts goes on (§11.6). */
const BEGUN_RUN_MS = 2_000;
const GATE_POLL_MS = 25;

const labels = (name: string) => ({ app: name });
const deployment = (name: string) => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name, namespace: NAMESPACE },
  spec: {
    replicas: REPLICAS,
    minReadySeconds: 1,
    selector: { matchLabels: labels(name) },
    template: { metadata: { labels: labels(name) }, spec: { containers: [{ name: "main", image: "shop:0" }] } },
  },
});

/** The Redis that stands behind the front, and how to put another one there. */
interface Behind {
  current: RedisServer;
  admin: Redis;
  readonly front: RedisFront;
  /** `restart`: the old one is killed first, and is gone for as long as `start` takes. */
  replace(start: () => Promise<RedisServer>): Promise<void>;
}

interface Fault {
  readonly name: string;
  /** Resolves when Redis can be used again. */
  readonly strike: (redis: Behind) => Promise<void>;
  /** How long a rollout may stand still, where it is more than SETTLED_MS_MAX. */
  readonly pauseMsMax?: number;
}

const FAULTS: readonly Fault[] = [
  { name: "nothing at all", strike: () => Promise.resolve() },
  { name: "FLUSHALL", strike: async ({ admin }) => void (await admin.flushall()) },
  { name: "half the keys deleted", strike: deleteHalf },
  { name: "restarted empty", strike: (redis) => redis.replace(() => startRedis()) },
  { name: "rolled back 2 s", strike: rollBack },
  { name: "failed over to a replica that lacks 500 ms", strike: failOver },
  // A registration of intents that was not answered holds its owner for OP_DEADLINE_MS: nobody may create what may still be created.
  { name: "connections cut 20 times", strike: cutOften, pauseMsMax: OP_DEADLINE_MS + 5_000 },
  { name: "out of memory for 5 s", strike: outOfMemory },
  { name: "paused for 20 s", strike: pause },
];

async function deleteHalf({ admin }: Behind): Promise<void> {
  const keys = (await admin.keys("dl:*")).toSorted();
  // Whatever the epoch is called, `ep` stays: nothing says at once that it is not the cache it was.
  await admin.del(...keys.filter((key, index) => index % 2 === 0 && !key.endsWith(":ep")));
}

async function rollBack({ admin, replace }: Behind): Promise<void> {
  await admin.save();
  const [, source = ""] = (await admin.config("GET", "dir")) as string[]; // a name and its value
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-dump-"));
  await copyFile(join(source, "dump.rdb"), join(directory, "dump.rdb"));
  await sleep(2_000);
  await replace(() => startRedis("--dir", directory));
  await rm(directory, { recursive: true, force: true });
}

async function failOver({ current, replace }: Behind): Promise<void> {
  const replica = await startRedis("--replicaof", "127.0.0.1", String(current.port));
  const admin = new Redis({ port: replica.port, host: "127.0.0.1" });
  await eventually("the replica follows", async () => (await admin.info("replication")).includes("master_link_status:up"));
  await admin.call("REPLICAOF", "NO", "ONE");
  await sleep(500);
  admin.disconnect();
  await replace(() => Promise.resolve(replica));
}

async function cutOften({ front }: Behind): Promise<void> {
  for (let i = 0; i < 20; i++) {
    front.cut();
    await sleep(150);
  }
}

async function outOfMemory({ admin }: Behind): Promise<void> {
  await admin.config("SET", "maxmemory", "1");
  await sleep(5_000);
  await admin.config("SET", "maxmemory", "0");
}

async function pause({ current }: Behind): Promise<void> {
  current.pause();
  await sleep(20_000);
  current.resume();
}

async function startBehind(): Promise<Behind & { stop(): Promise<void> }> {
  const connect = ({ port }: RedisServer): Redis =>
    new Redis({ port, host: "127.0.0.1", maxRetriesPerRequest: null }).on("error", () => undefined);
  const current = await startRedis();
  const front = await startRedisFront(current.port);
  const behind: Behind = {
    current,
    admin: connect(current),
    front,
    async replace(start) {
      behind.admin.disconnect();
      await behind.current.stop();
      behind.current = await start();
      behind.admin = connect(behind.current);
      front.to(behind.current.port);
    },
  };
  return Object.assign(behind, {
    async stop() {
      behind.admin.disconnect();
      await front.stop();
      await behind.current.stop();
    },
  });
}

await whereRealPartsAre("what Redis may lose", () => {
  describe("three rollouts settle after Redis is", () => {
    let cluster: Cluster;
    let dev: Running;
    let redis: Awaited<ReturnType<typeof startBehind>>;
    let own: Redis;
    let store: Store;
    beforeAll(async () => {
      [cluster, redis] = await Promise.all([startCluster(), startBehind()]);
      dev = deltaloop(
        ["dev", "--act", "--kubeconfig", cluster.rolesKubeconfig, "--lease-namespace", OWN_NAMESPACE, "--redis", redis.front.url],
        SECRETS,
      );
      await dev.line("ready:", 120_000);
      const cid = /cluster ([0-9a-f]{12})/.exec(dev.output())?.[1] ?? "";
      own = new Redis(redis.front.url, { commandTimeout: 500, maxRetriesPerRequest: 1, retryStrategy: () => 50 }).on(
        "error",
        () => undefined,
      );
      store = createRedisStore(own, {
        deployment: "dev",
        cluster: cid,
        identity: cacheIdentity(createDigester(SECRETS.DELTALOOP_DIGEST_KEY)),
        signer: createSigner([SECRETS.DELTALOOP_MAC_KEY], cid),
        holeLimitMs: 2_000,
      });
      await cluster.kubectl("create", "namespace", NAMESPACE);
      await cluster.apply(...NAMES.map(deployment));
      for (const name of NAMES) await cluster.rolledOut(NAMESPACE, name);
    });
    afterAll(async () => {
      if (process.env["LOSS_LOG"] !== undefined) process.stderr.write(dev?.output() ?? "");
      own?.disconnect();
      await dev?.stop();
      await cluster?.stop();
      await redis?.stop();
    });

    for (const [index, { name, strike, pauseMsMax = SETTLED_MS_MAX }] of FAULTS.entries()) {
      it(name, async () => {
        const history = await recordHistory(cluster.client, NAMESPACE);
        const before = history.changes().length;
        const image = `main=shop:${index + 1}`;
        await Promise.all(NAMES.map((each) => cluster.kubectl("set", "image", `deployment/${each}`, image, "-n", NAMESPACE)));
        await eventually("the rollouts are on their way", () => podsAdded(history.changes().slice(before)) >= 3);

        const gates = watchGates(store);
        await strike(redis);
        const usableAtMs = Date.now();
        for (const each of NAMES) await cluster.rolledOut(NAMESPACE, each, 120);
        const rolledMs = Date.now() - usableAtMs;
        await eventually("the cache is what the API server has", () => isSame(store, cluster), 120_000);
        const closed = await gates.stop();
        const closedMs = closed.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
        const openMs = Math.max(0, ...closed.map(({ toMs }) => toMs - usableAtMs));
        const pausesMs = await longestPausesMs(cluster, usableAtMs);
        measured(
          `${name}: open after ${seconds(openMs)}, longest pauses ${pausesMs.map(seconds).join(", ")}, rolled out after ${seconds(rolledMs)}; gate shut for ${seconds(closedMs)}${closed.map(({ fromMs, why }) => ` [${seconds(fromMs - usableAtMs)} ${why}]`).join("")}`,
        );

        await sleep(1_000); // for whoever would do something once more
        await history.stop();
        const changes = history.changes();
        for (const each of NAMES) {
          const moments = momentsOf(changes, each);
          expect(most(moments, ({ asked }) => asked)).toBeLessThanOrEqual(ASKED_MAX);
          expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
        }
        expect(Object.values(podsCreated(changes)).every((count) => count <= REPLICAS)).toBe(true);
        expect(await writesDuring(cluster, closed)).toEqual([]);
        expect(openMs).toBeLessThanOrEqual(SETTLED_MS_MAX);
        expect(Math.max(...pausesMs)).toBeLessThanOrEqual(pauseMsMax);
      });
    }
  });
});

function podsAdded(changes: readonly { readonly kind: string; readonly type: string }[]): number {
  return changes.filter(({ kind, type }) => kind === "Pod" && type === "ADDED").length;
}

interface Closed {
  readonly fromMs: number;
  readonly toMs: number;
  readonly why: string;
}

/** Spans in which no gate was open, as somebody beside the functions saw it. */
function watchGates(store: Store): { stop(): Promise<readonly Closed[]> } {
  const spans: { fromMs: number; toMs: number; why: string }[] = [];
  let stopped = false;
  const watching = (async (): Promise<void> => {
    let open: (typeof spans)[number] | undefined;
    while (!stopped) {
      const askedMs = Date.now();
      const gates = await Promise.all(CONTROLLERS.map((controller) => store.gate(controller))).catch(() => undefined);
      const shut = gates?.find((gate) => !gate.open);
      // What cannot be asked is not known: such a time is in no span.
      if (gates?.every((gate) => !gate.open) && shut && !shut.open) {
        open ??= spans[spans.push({ fromMs: Date.now(), toMs: askedMs, why: shut.reason }) - 1];
        if (open) open.toMs = Math.max(open.toMs, askedMs);
      } else open = undefined;
      await sleep(GATE_POLL_MS);
    }
  })();
  return {
    async stop() {
      stopped = true;
      await watching;
      return spans;
    },
  };
}

/** What our functions wrote to the API server, less Events. */
async function ownWrites(cluster: Cluster): Promise<readonly AuditEntry[]> {
  return (await cluster.audit()).filter(
    ({ userAgent, verb, objectRef }) =>
      userAgent?.startsWith("deltaloop/") === true &&
      ["create", "patch", "delete"].includes(verb) &&
      objectRef?.namespace === NAMESPACE &&
      objectRef.resource !== "events",
  );
}

/** Of each rollout: the longest time between two writes for it, or between `fromMs` and the first one. */
async function longestPausesMs(cluster: Cluster, fromMs: number): Promise<readonly number[]> {
  const writes = await ownWrites(cluster);
  return NAMES.map((name) => {
    const at = writes
      .filter(({ objectRef, requestObject }) => (objectRef?.name ?? requestObject?.metadata?.name ?? "").startsWith(name))
      .map(({ stageTimestamp }) => Date.parse(stageTimestamp))
      .filter((atMs) => atMs >= fromMs)
      .toSorted((a, b) => a - b);
    return at.reduce((longest, atMs, index) => Math.max(longest, atMs - (at[index - 1] ?? fromMs)), 0);
  });
}

/** What our functions wrote while the gates were shut, less what runs of before may end. */
async function writesDuring(cluster: Cluster, closed: readonly Closed[]): Promise<readonly string[]> {
  return (await ownWrites(cluster))
    .filter(({ stageTimestamp }) => {
      const atMs = Date.parse(stageTimestamp);
      return closed.some(({ fromMs, toMs }) => atMs > fromMs + BEGUN_RUN_MS && atMs < toMs);
    })
    .map(({ verb, requestURI }) => `${verb} ${requestURI}`);
}

/** @throws with what differs. */
async function isSame(store: Store, cluster: Cluster): Promise<true> {
  expect(await differences(store, cluster)).toEqual([]);
  return true;
}

/** Rows that the API server does not have so, objects that have no row, and rows without their entry. */
async function differences(store: Store, cluster: Cluster): Promise<readonly string[]> {
  const found: string[] = [];
  for (const resource of CACHED_RESOURCES) {
    const rows = await Promise.all(Array.from({ length: LANES[resource] }, (_, lane) => store.readLane(resource, lane)));
    const cached = rows.flatMap((lane) => lane.rows.map(({ key, uid, rv }) => `${resource} ${key} ${uid} ${rv}`));
    const objects = await cluster.list<{ readonly metadata: Readonly<Record<string, string>> }>(pathOf(resource));
    const live = objects.map(({ metadata: m }) => `${resource} ${m["namespace"]}/${m["name"]} ${m["uid"]} ${m["resourceVersion"]}`);
    found.push(...live.filter((one) => !cached.includes(one)).map((one) => `not cached: ${one}`));
    found.push(...cached.filter((one) => !live.includes(one)).map((one) => `not there: ${one}`));
    const { ghosts, hidden, foreign } = await store.keyUse(resource, false);
    if (ghosts + hidden + foreign > 0) found.push(`${resource}: ${ghosts} ghosts, ${hidden} hidden, ${foreign} foreign`);
  }
  return found;
}

function pathOf(resource: (typeof CACHED_RESOURCES)[number]): string {
  const { apiVersion } = RESOURCES[resource];
  return apiVersion === "v1" ? `/api/v1/${resource}` : `/apis/${apiVersion}/${resource}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
