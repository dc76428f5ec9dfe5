/**
 * Two watchers (informer §14) on a real control plane, with real Redis and queue: in the middle of a rollout, the leader is terminated,
 * killed, suspended and resumed, or loses its Lease, or both watchers are killed at once.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import type { Store } from "../../shared/store/ports/store.ts";
import { DEV_SECRETS, isSame, storeOfDev } from "../support/cache-compared.ts";
import { deltaloop, eventually, killHard, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { momentsOf, most, podsCreated, recordHistory } from "../support/history.ts";
import type { History } from "../support/history.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

const NAMESPACE = "ha";
const LEASE = "deltaloop-watcher-dev";
const REPLICAS = 12;
/** Maximum of the desired replicas: 12 plus a surge of 25 %. */
const ASKED_MAX = 15;
const RELEASED_MS_MAX = 2_000;
const KILLED_MS_MAX = 20_000;
/**
 * Maximum number of messages that a suspended sender sends when it resumes: it may have started one call, with ten messages, all of which
 * are dropped.
 */
const ON_THEIR_WAY_MAX = 10;
const STOPPED_MS = 30_000;

const labels = { app: "web" };
const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: NAMESPACE },
  spec: {
    replicas: REPLICAS,
    minReadySeconds: 1,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:0" }] } },
  },
};

await whereRealPartsAre("two watchers on a real control plane", () => {
  describe("a rollout of 12 pods continues, and two watchers are never leaders at once, when", () => {
    let cluster: Cluster;
    let redis: RedisServer;
    let own: Redis;
    let store: Store;
    let dev: Running;
    beforeAll(async () => {
      [cluster, redis] = await Promise.all([startCluster(), startRedis()]);
      const url = `redis://127.0.0.1:${redis.port}`;
      const flags = ["--kubeconfig", cluster.rolesKubeconfig, "--lease-namespace", OWN_NAMESPACE, "--redis", url, "--watchers", "2"];
      dev = deltaloop(["dev", "--act", ...flags], DEV_SECRETS);
      await dev.line("ready:");
      own = new Redis(url);
      store = storeOfDev(own, dev.output());
      await cluster.kubectl("create", "namespace", NAMESPACE);
      await cluster.apply(deployment);
      await cluster.rolledOut(NAMESPACE, "web");
    });
    afterAll(async () => {
      if (process.env["HA_LOG"] !== undefined) process.stderr.write(dev?.output() ?? "");
      own?.disconnect();
      await dev?.stop();
      await cluster?.stop();
      await redis?.stop();
    });
    beforeEach(() => eventually("both watchers run", () => waitingOrLeading(dev.output()) === 2));

    let images = 0;
    /** Starts a rollout; resolves when three new pods exist. */
    async function beginRollout(history: History): Promise<void> {
      const before = history.changes().length;
      await cluster.kubectl("set", "image", "deployment/web", `main=shop:${++images}`, "-n", NAMESPACE);
      await eventually("the rollout is on its way", () => podsAdded(history, before) >= 3);
    }

    async function leaderOf(what: (output: string) => string | undefined, timeoutMs: number): Promise<string> {
      return eventually("somebody leads", () => what(dev.output()), timeoutMs);
    }

    /** Injects the fault during a rollout, and checks everything until it is complete. */
    async function inARollout(strike: (history: History) => Promise<string>): Promise<void> {
      const createdBefore = await podCreates(cluster);
      const history = await recordHistory(cluster.client, NAMESPACE);
      const [imagesBefore, podsBefore] = [images, podsSeen(history)];
      await beginRollout(history);
      const struckMs = Date.now();
      const what = await strike(history);
      await cluster.rolledOut(NAMESPACE, "web");
      await eventually("the cache is what the API server has", () => isSame(store, cluster));
      await sleep(500); // the caller may add actions
      measured(`${what}; rolled out and equal ${seconds(Date.now() - struckMs)} after it began`);
      await history.stop();
      const moments = momentsOf(history.changes(), "web");
      expect(most(moments, ({ asked }) => asked)).toBeLessThanOrEqual(ASKED_MAX);
      expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
      const wanted = (images - imagesBefore) * REPLICAS;
      expect(Math.max(...Object.values(podsCreated(history.changes())))).toBe(REPLICAS);
      expect(podsSeen(history) - podsBefore).toBe(wanted);
      expect((await podCreates(cluster)) - createdBefore).toBe(wanted);
      expect([...leaders(dev.output())]).toHaveLength(1);
    }

    it("[informer T57] the leader is stopped with SIGTERM: the other one leads within 2 s", async () => {
      await inARollout(async () => {
        const { leader, tookMs } = await handOver((pid) => process.kill(pid, "SIGTERM"), RELEASED_MS_MAX + 20_000);
        expect(tookMs).toBeLessThanOrEqual(RELEASED_MS_MAX);
        return `SIGTERM: ${leader} led after ${seconds(tookMs)}`;
      });
    });

    it("[informer T55] a user deletes the leader's Lease", async () => {
      await inARollout(async () => {
        const struckMs = Date.now();
        await cluster.kubectl("delete", "lease", LEASE, "-n", OWN_NAMESPACE);
        const holder = await eventually("a Lease that is held", () => holderOf(cluster), RELEASED_MS_MAX + 3_000);
        const tookMs = Date.now() - struckMs;
        await sleep(4_000); // two renewal intervals, after which a former leader has noticed the loss
        expect(await holderOf(cluster)).toBe(holder);
        return `Lease deleted: held again after ${seconds(tookMs)}`;
      });
    });

    it("[informer T56] the leader is killed with SIGKILL: the other one leads within 20 s", async () => {
      await inARollout(async () => {
        const { leader, tookMs } = await handOver(killHard, KILLED_MS_MAX + 10_000);
        expect(tookMs).toBeLessThanOrEqual(KILLED_MS_MAX);
        return `SIGKILL: ${leader} led after ${seconds(tookMs)}`;
      });
    });

    it("[informer T54] the leader is suspended for 30 s: when resumed it starts no call, gives up, and leads again after the other one ends", async () => {
      await inARollout(async (history) => {
        const former = [...leaders(dev.output())][0] ?? "";
        const pid = dev.pids()[former] ?? 0;
        const stoppedMs = Date.now();
        try {
          const { leader, tookMs } = await handOver((one) => process.kill(one, "SIGSTOP"), KILLED_MS_MAX + 5_000);
          expect(tookMs).toBeLessThanOrEqual(KILLED_MS_MAX);
          await sleep(Math.max(0, stoppedMs + STOPPED_MS - 1_500 - Date.now()));
          await beginRollout(history); // gives its watches many events for when it resumes
          await sleep(Math.max(0, stoppedMs + STOPPED_MS - Date.now()));
          const droppedBefore = droppedByFence(dev.output());
          process.kill(pid, "SIGCONT");
          const thawedMs = Date.now();
          await eventually(`${former} gives up`, () => !leaders(dev.output()).has(former), 5_000);
          const gaveUpMs = Date.now() - thawedMs;
          await cluster.rolledOut(NAMESPACE, "web");
          expect(droppedByFence(dev.output()) - droppedBefore).toBeLessThanOrEqual(ON_THEIR_WAY_MAX);
          expect([...leaders(dev.output())]).toEqual([leader]);
          const back = await handOver((one) => process.kill(one, "SIGTERM"), RELEASED_MS_MAX + 5_000);
          expect(back.leader).toBe(former);
          expect(back.tookMs).toBeLessThanOrEqual(RELEASED_MS_MAX);
          return `SIGSTOP: ${leader} led after ${seconds(tookMs)}; thawed, ${former} gave up after ${gaveUpMs} ms, and led again ${seconds(back.tookMs)} after ${leader} was ended`;
        } finally {
          process.kill(pid, "SIGCONT");
        }
      });
    });

    it("both watchers are killed with SIGKILL and restarted", async () => {
      await inARollout(async () => {
        const { watcher, watcher2 } = dev.pids();
        const from = dev.output().length;
        const struckMs = Date.now();
        killHard(watcher);
        killHard(watcher2);
        // Waits, because the start-up time of a process depends on the machine.
        await eventually("one of them waits", () => waitingOrLeading(dev.output().slice(from)) > 0);
        const startedMs = Date.now();
        const leader = await leaderOf((output) => newLeader(output.slice(from)), KILLED_MS_MAX + 10_000);
        expect(Date.now() - startedMs).toBeLessThanOrEqual(KILLED_MS_MAX);
        return `both killed −9: ${leader} led after ${seconds(Date.now() - struckMs)}, ${seconds(Date.now() - startedMs)} after one was there again`;
      });
    });

    /** Applies `strike` to the leading process, and waits for the other one. */
    async function handOver(
      strike: (pid: number) => void,
      timeoutMs: number,
    ): Promise<{ readonly leader: string; readonly tookMs: number }> {
      const [former = "nobody"] = leaders(dev.output());
      const from = dev.output().length;
      const struckMs = Date.now();
      strike(dev.pids()[former] ?? 0);
      const leader = await leaderOf((output) => newLeader(output.slice(from)), timeoutMs);
      expect(leader).not.toBe(former);
      return { leader, tookMs: Date.now() - struckMs };
    }
  });
});

/** Returns the names of the watchers that logged that they lead, and have neither lost the Lease nor exited. */
function leaders(output: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const line of output.split("\n")) {
    const leads = newLeader(line);
    if (leads !== undefined) found.add(leads);
    const not = /^(watcher\d?) +warn: no longer leading/.exec(line) ?? /warn: (watcher\d?) exited/.exec(line);
    if (not?.[1] !== undefined) found.delete(not[1]);
  }
  return found;
}

function newLeader(output: string): string | undefined {
  return /^(watcher\d?) +leading /m.exec(output)?.[1];
}

/** Returns the number of watchers that have started and then logged the state of the Lease. */
function waitingOrLeading(output: string): number {
  const known = new Set<string>();
  for (const line of output.split("\n")) {
    const died = /warn: (watcher\d?) exited/.exec(line)?.[1];
    if (died !== undefined) known.delete(died);
    const said = /^(watcher\d?) +(?:leading|waiting for) /.exec(line)?.[1];
    if (said !== undefined) known.add(said);
  }
  return known.size;
}

/** Returns the number of a former leader's messages that an applier dropped. */
function droppedByFence(output: string): number {
  return output.split("\n").filter((line) => line.includes("message dropped") && line.includes("why=fence")).length;
}

function podsAdded(history: History, before: number): number {
  return history
    .changes()
    .slice(before)
    .filter(({ kind, type }) => kind === "Pod" && type === "ADDED").length;
}

/** Returns the number of different pods in the whole history. */
function podsSeen(history: History): number {
  return Object.values(podsCreated(history.changes())).reduce((sum, count) => sum + count, 0);
}

/** The number of pods that our functions created. */
async function podCreates(cluster: Cluster): Promise<number> {
  return (await cluster.audit()).filter(
    ({ verb, objectRef, responseStatus }) =>
      verb === "create" &&
      objectRef?.namespace === NAMESPACE &&
      objectRef.resource === "pods" &&
      objectRef.subresource === undefined &&
      responseStatus?.code === 201,
  ).length;
}

async function holderOf(cluster: Cluster): Promise<string | undefined> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${OWN_NAMESPACE}/leases/${LEASE}`;
  const lease = await cluster.get<{ readonly spec?: { readonly holderIdentity?: string } }>(path);
  return lease?.spec?.holderIdentity || undefined;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
