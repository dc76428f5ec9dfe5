/**
 * Threat: a copy of the cluster (an etcd backup restored elsewhere, a VM image) shares cluster id, keys, cache and queues with production.
 * Who: an administrator, by accident. Before: the copy's watcher detected a "regression" and replaced the current epoch, production opened
 * another one, and functions decided from the copy's list: five ReplicaSets of 3 had 315 pods after 20 s.
 */
import { describe, expect, it } from "vitest";

import { resumeLineage } from "../../cli/cluster/resume-lineage.ts";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { LEASE_APPROVED } from "../../shared/controllers/cache/watcher/lineage.ts";
import { createMemoryData } from "../../shared/store/memory/store/data.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import type { System } from "../../shared/local/assemble-system.ts";
import { rawClientIn } from "../support/raw-client.ts";
import { testSigner } from "../support/signer.ts";
import { createSimulatedKube } from "../simulation/kube.ts";
import { recordingLog } from "../unit/recording-log.ts";

const CLUSTER = "c1";
const LEASE = { namespace: "kube-system", name: "deltaloop-watcher-clone" };
const LEASES = `/apis/coordination.k8s.io/v1/namespaces/${LEASE.namespace}/leases`;
const REPLICASETS = "/apis/apps/v1/namespaces/shop/replicasets";
const PODS = "/api/v1/namespaces/shop/pods";
const REPLICAS = 3;
const NAMES = ["a", "b", "c", "d", "e"];

type Object = {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec?: object;
};

/** One Store and one queue, which several clusters use as if each were alone. */
function sharedCache() {
  const clock = createVirtualClock(Date.UTC(2026, 2, 1, 10));
  const digester = createDigester("clones");
  const data = createMemoryData();
  const backend = memoryBackend({ clock, random: createSeededRandom(1), digester, deployment: "clone", cluster: CLUSTER, data });

  const cluster = async (seed: number, firstRevision: bigint) => {
    const server = createApiServer({ clock, random: createSeededRandom(seed), garbageCollection: false, firstRevision });
    const log = recordingLog();
    const person = rawClientIn(server, "kubectl");
    const random = createSeededRandom(seed + 1);
    const kube = (component: string) =>
      createSimulatedKube({ server, clock, random, component, faults: () => ({ api: 0, watch: 0 }), pageSize: 500 });
    await person.request("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
    for (const name of NAMES)
      await person.request("POST", REPLICASETS, {
        metadata: { name },
        spec: {
          replicas: REPLICAS,
          selector: { matchLabels: { app: name } },
          template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: "main", image: "web:1" }] } },
        },
      });
    let most = 0;
    const nodes = { count: 2, clock, random, bindPods: true, readyAfterMs: [200, 400], deleteAfterMs: [100, 300] } as const;
    const pods = async (): Promise<readonly string[]> => {
      const found = (await person.list(PODS)).items.map((pod) => (pod as unknown as Object).metadata.name);
      most = Math.max(most, found.length);
      return found;
    };
    /** `functions` is false for a clone without functions. */
    const start = (functions = true, lease = LEASE): System =>
      assembleSystem(
        {
          ...{ clock, random, digester, signer: testSigner(CLUSTER), log, kube, functions: functionHandlers },
          ...backend,
          ...(!functions && { sources: memoryBackend({ clock, random, digester, deployment: "none", cluster: CLUSTER }).sources }),
        },
        {
          cluster: CLUSTER,
          clusterUid: "cluster-uid",
          lease,
          nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "nodes" }), nodes, ends),
        },
      );
    return {
      log,
      pods,
      most: () => most,
      start,
      stop: async (system: System) => {
        const stopped = system.stop();
        await clock.advance(5_000);
        await stopped;
      },
      deletePod: async (name: string) => void (await person.request("DELETE", `${PODS}/${name}`, { gracePeriodSeconds: 0 })),
      lease: async () => (await person.list(LEASES)).items[0] as unknown as Object,
      /** Creates the Lease as in a backup. */
      putLease: async ({ metadata: { name, annotations }, spec }: Object) =>
        void (await person.request("POST", LEASES, { metadata: { name, ...(annotations && { annotations }) }, spec })),
      says: (text: string) => log.lines.filter(({ message }) => message.includes(text)).length,
      backup: () => server.backup(),
      resume: async () => await resumeLineage(createInProcessKube(server, { component: "resume" }), backend.store, LEASE),
    };
  };
  return { clock, data, cluster };
}

/** An idle production cluster, and a clone whose Lease holds a smaller term count than the last one that the Store confirmed. */
async function productionAndClone(firstRevision: bigint) {
  const shared = sharedCache();
  const { clock } = shared;
  const production = await shared.cluster(10, 1_000n);
  const running = production.start();
  await clock.advance(20_000);
  expect(await production.pods()).toHaveLength(NAMES.length * REPLICAS);
  const lease = await production.lease();
  await clock.advance(30_000);
  const clone = await shared.cluster(20, firstRevision);
  await clone.putLease(lease);
  return { ...shared, production, running, clone, epoch: shared.data.epoch?.record.epoch };
}

/** Deletes a pod of an owner every few seconds, and checks that the owner never has more pods than it desires. */
async function live(scene: Pick<Awaited<ReturnType<typeof productionAndClone>>, "clock" | "production">, ms: number): Promise<void> {
  for (let i = 0; i < ms / 5_000; i++) {
    const [first] = await scene.production.pods();
    if (i % 4 === 0 && first !== undefined) await scene.production.deletePod(first);
    for (let t = 0; t < 5_000; t += 500) {
      await scene.clock.advance(500);
      expect((await scene.production.pods()).length).toBeLessThanOrEqual(NAMES.length * REPLICAS);
    }
  }
}

describe("a clone of a running cluster", () => {
  it.each([
    { name: "with lower resourceVersions", firstRevision: 1n, functions: false },
    { name: "with higher resourceVersions", firstRevision: 9_000_000n, functions: false },
    { name: "with lower resourceVersions and its own functions", firstRevision: 1n, functions: true },
    { name: "with higher resourceVersions and its own functions", firstRevision: 9_000_000n, functions: true },
  ])("a clone $name changes nothing in production, and reports why it does not act", async ({ firstRevision, functions }) => {
    const scene = await productionAndClone(firstRevision);
    const { production, clone, data, epoch, clock } = scene;
    const cloned = clone.start(functions);
    await live(scene, 180_000);
    await clock.advance(10_000);
    expect(data.epoch?.record.epoch).toBe(epoch);
    expect(await production.pods()).toHaveLength(NAMES.length * REPLICAS);
    expect(await clone.pods()).toEqual([]);
    expect(clone.says("two clusters share this cache")).toBeGreaterThan(0);
    expect(production.says("two clusters share this cache")).toBe(0);
    await clone.stop(cloned);
    await production.stop(scene.running);
  });

  it("a clone takes over the cache while production is down; production then stops with an alarm, and converges once the clone is gone", async () => {
    const scene = await productionAndClone(1n);
    const { production, clone, data, epoch, clock } = scene;
    await production.stop(scene.running);
    const [gone = ""] = await production.pods();
    const cloned = clone.start();
    await clock.advance(300_000);
    const taken = data.epoch?.record.epoch;
    expect(taken).not.toBe(epoch);
    expect(await clone.pods()).toHaveLength(NAMES.length * REPLICAS);
    const returned = production.start();
    await production.deletePod(gone);
    await live({ clock, production: { ...production, deletePod: async () => undefined } }, 120_000);
    expect(data.epoch?.record.epoch).toBe(taken);
    expect(production.says("two clusters share this cache")).toBeGreaterThan(0);
    expect(await clone.pods()).toHaveLength(NAMES.length * REPLICAS);
    await clone.stop(cloned);
    await clock.advance(90_000);
    expect(await production.pods()).toHaveLength(NAMES.length * REPLICAS);
    await live(scene, 60_000);
    await production.stop(returned);
  });

  it("a clone may replace the epoch at the moment production returns; then one of the two continues and the other stops with an alarm", async () => {
    const downSince = async () => {
      const scene = await productionAndClone(1n);
      await scene.production.stop(scene.running);
      return { ...scene, cloned: scene.clone.start(), current: () => scene.data.epoch?.record.epoch };
    };
    const first = await downSince();
    let replacedMs = 0;
    for (; first.current() === first.epoch; replacedMs += 100) await first.clock.advance(100);
    expect(replacedMs).toBeGreaterThan(60_000);
    await first.clone.stop(first.cloned);

    const isKept: boolean[] = [];
    for (const earlierMs of [3_000, 1_000, 300, 100, -100]) {
      const { production, clone, clock, epoch, current, cloned } = await downSince();
      await clock.advance(replacedMs - earlierMs);
      const returned = production.start();
      await live({ clock, production }, 30_000);
      const winner = current();
      expect((winner === epoch ? clone : production).says("two clusters share this cache")).toBeGreaterThan(0);
      await live({ clock, production }, 30_000);
      expect(current()).toBe(winner);
      await clone.stop(cloned);
      await clock.advance(90_000);
      expect(await production.pods()).toHaveLength(NAMES.length * REPLICAS);
      await production.stop(returned);
      isKept.push(winner === epoch);
    }
    expect([isKept[0], isKept.at(-1)]).toEqual([true, false]);
  });

  it("a clone's epoch is replaced when a user runs deltaloop resume --lineage against production; the clone then stops with an alarm", async () => {
    const scene = await productionAndClone(1n);
    const { production, clone, data, clock } = scene;
    const [gone = ""] = await production.pods();
    await production.stop(scene.running);
    const cloned = clone.start();
    await clock.advance(300_000);
    const taken = data.epoch?.record.epoch;
    expect(await clone.resume()).toMatchObject({
      lines: ["the epoch is of this cluster: nothing to replace", expect.stringMatching(/^forgotten: [1-9]/)],
    });
    const returned = production.start();
    await production.deletePod(gone);
    await clock.advance(30_000);
    expect(data.epoch?.record.epoch).toBe(taken);
    const approved = await production.resume();
    expect(approved).toMatchObject({ isDone: true, lines: [expect.stringContaining(`replaces epoch ${taken}`), expect.anything()] });
    await clock.advance(10_000);
    const replaced = data.epoch?.record.epoch;
    expect(replaced).not.toBe(taken);
    await live(scene, 60_000);
    expect(data.epoch?.record.epoch).toBe(replaced);
    expect(await production.pods()).toHaveLength(NAMES.length * REPLICAS);
    expect(clone.says("two clusters share this cache")).toBeGreaterThan(0);
    expect((await production.lease()).metadata.annotations).not.toHaveProperty(LEASE_APPROVED);
    await clone.stop(cloned);
    await production.stop(returned);
  });
});

describe("a second watcher with another Lease in the same deployment", () => {
  it("a second watcher does not replace the epoch, and logs the reason", async () => {
    const { clock, data, cluster } = sharedCache();
    const production = await cluster(10, 1_000n);
    const running = production.start();
    await clock.advance(20_000);
    const epoch = data.epoch?.record.epoch;
    const second = production.start(false, { ...LEASE, namespace: "default" });
    await live({ clock, production }, 60_000);
    expect(data.epoch?.record.epoch).toBe(epoch);
    expect(production.log.lines).toContainEqual(
      expect.objectContaining({
        level: "error",
        message: "two clusters share this cache: sending nothing",
        fields: expect.objectContaining({ why: expect.stringContaining("a second Lease of this deployment") as string }) as object,
      }),
    );
    await production.stop(second);
    await production.stop(running);
  });
});

describe("a cluster that is restored in place", () => {
  it.each([
    { name: "under a running leader", restarts: false },
    { name: "while the watcher is restarted", restarts: true },
  ])("a restore $name opens a new epoch, and restores the pods of the backup", async ({ restarts }) => {
    const scene = sharedCache();
    const { clock, data } = scene;
    const production = await scene.cluster(10, 1_000n);
    let running = production.start();
    await clock.advance(20_000);
    const restore = production.backup();
    const before = await production.pods();
    await clock.advance(30_000);
    const [first = ""] = before;
    await production.deletePod(first);
    await clock.advance(20_000);
    const epoch = data.epoch?.record.epoch;
    if (restarts) await production.stop(running);
    restore();
    if (restarts) running = production.start();
    await clock.advance(120_000);
    expect(data.epoch?.record.epoch).not.toBe(epoch);
    expect(await production.pods()).toEqual(before);
    await live({ clock, production }, 40_000);
    await production.stop(running);
  });
});
