/**
 * Processes that are killed in the middle of a rollout, on a real control plane: each of our processes, all of them except Redis at once,
 * and the API server.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, killHard, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { least, momentsOf, most, podsCreated, recordHistory } from "../support/history.ts";
import type { History } from "../support/history.ts";

/** With 25 % of 20 being 5, and minReadySeconds 2, a rollout takes about 10 s. */
const REPLICAS = 20;
const [ASKED_MAX, READY_MIN] = [25, 15];
const PILE_UP_MS = 2_000;
const PROGRESS_MS_MAX = 40_000;

const labels = { app: "web" };
const deployment = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web" },
  spec: {
    replicas: REPLICAS,
    minReadySeconds: 2,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
  },
};

interface Fault {
  readonly name: string;
  readonly strike: (dev: Running, cluster: Cluster) => Promise<void> | void;
  /** The fault kills a process that may have creates in flight. */
  readonly killsTheCaller?: true;
}

const kill =
  (...names: readonly string[]): Fault["strike"] =>
  (dev) => {
    const pids = dev.pids();
    for (const name of names) killHard(pids[name]);
  };

/** Suspends the consumer for a while and then kills the queue, so that the queue's messages are lost. */
const killFullQueue: Fault["strike"] = async (dev) => {
  const { functions = 0, queue } = dev.pids();
  process.kill(functions, "SIGSTOP");
  await sleep(PILE_UP_MS);
  killHard(queue);
  process.kill(functions, "SIGCONT");
};

const FAULTS: readonly Fault[] = [
  { name: "function host killed with SIGKILL", strike: kill("functions"), killsTheCaller: true },
  { name: "watcher killed with SIGKILL", strike: kill("watcher") },
  { name: "queue killed with SIGKILL with messages in it", strike: killFullQueue },
  {
    name: "watcher, queue and function host killed with SIGKILL at once",
    strike: kill("watcher", "queue", "functions"),
    killsTheCaller: true,
  },
  { name: "API server restarted", strike: (_, cluster) => cluster.plane.restartApiServer() },
];

await whereRealPartsAre("faults on a real control plane", () => {
  describe("a rollout of 20 pods continues", () => {
    let cluster: Cluster;
    let dev: Running;
    beforeAll(async () => {
      cluster = await startCluster();
      dev = await startDev(cluster);
    });
    afterAll(async () => {
      await dev?.stop();
      await cluster?.stop();
    });

    for (const [index, { name, strike, killsTheCaller }] of FAULTS.entries()) {
      it(`after: ${name}`, async () => {
        const namespace = `fault-${index}`;
        await cluster.kubectl("create", "namespace", namespace);
        const history = await recordHistory(cluster.client, namespace);
        await cluster.apply({ ...deployment, metadata: { ...deployment.metadata, namespace } });
        await cluster.rolledOut(namespace, "web");
        const before = history.changes().length;
        await cluster.kubectl("set", "image", "deployment/web", "main=shop:2", "-n", namespace);
        await eventually("the rollout is on its way", () => newPods(history, before) >= 6);

        const struckAtMs = Date.now();
        await strike(dev, cluster);
        await cluster.rolledOut(namespace, "web", 90);
        const rolledMs = Date.now() - struckAtMs;
        const writes = await ownWrites(cluster, namespace);
        const pauseMs = longestPauseMs(
          writes.filter((atMs) => atMs >= struckAtMs),
          struckAtMs,
        );
        measured(`${name}: progress after ${seconds(pauseMs)} at most, rolled out ${seconds(rolledMs)} after it`);
        expect(pauseMs).toBeLessThanOrEqual(PROGRESS_MS_MAX);

        await sleep(1_500); // the caller may add actions
        await history.stop();
        expectWithinBounds(history, before);
        await expectCreatedOnce(cluster, namespace, history, killsTheCaller === true);
      });
    }
  });
});

function newPods(history: History, before: number): number {
  return history
    .changes()
    .slice(before)
    .filter(({ kind, type }) => kind === "Pod" && type === "ADDED").length;
}

/**
 * The times of the responses to our functions' writes of pods and ReplicaSets, by the API server's clock, which is also this process's
 * clock.
 */
async function ownWrites(cluster: Cluster, namespace: string): Promise<readonly number[]> {
  const entries = (await cluster.audit()).filter(
    ({ userAgent, verb, objectRef }) =>
      userAgent?.startsWith("deltaloop/") === true &&
      ["create", "patch", "delete"].includes(verb) &&
      objectRef?.namespace === namespace &&
      ["pods", "replicasets"].includes(objectRef.resource ?? ""),
  );
  return entries.map(({ stageTimestamp }) => Date.parse(stageTimestamp)).toSorted((a, b) => a - b);
}

/** The longest time between two writes, or between the fault and the first write. */
function longestPauseMs(writesAtMs: readonly number[], fromMs: number): number {
  return writesAtMs.reduce((longest, atMs, index) => Math.max(longest, atMs - (writesAtMs[index - 1] ?? fromMs)), 0);
}

function expectWithinBounds(history: History, before: number): void {
  const changes = history.changes();
  const from = changes[before]?.revision ?? 0n;
  const moments = momentsOf(changes, "web").filter(({ change }) => change.revision >= from);
  measured(
    `asked for ≤ ${most(moments, ({ asked }) => asked)}, not ending ≤ ${most(moments, ({ active }) => active)}, ready ≥ ${least(moments, ({ ready }) => ready)}`,
  );
  expect(most(moments, ({ asked }) => asked)).toBeLessThanOrEqual(ASKED_MAX);
  expect(least(moments, ({ ready }) => ready)).toBeGreaterThanOrEqual(READY_MIN);
  expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
}

/**
 * Checks that each ReplicaSet has created exactly the desired number of pods, and that the API server's audit log contains exactly one
 * create with response 201 per pod. If the caller was killed, the audit log may lack that response, or have another code.
 */
async function expectCreatedOnce(cluster: Cluster, namespace: string, history: History, killsTheCaller: boolean): Promise<void> {
  expect(Object.values(podsCreated(history.changes()))).toEqual([REPLICAS, REPLICAS]);
  const creates = (await cluster.audit()).filter(({ verb, objectRef }) => verb === "create" && objectRef?.namespace === namespace);
  const named = (resource: string, isMeant: (code: number | undefined) => boolean): readonly string[] =>
    creates
      .filter(
        ({ objectRef, responseStatus }) =>
          objectRef?.resource === resource && objectRef.subresource === undefined && isMeant(responseStatus?.code),
      )
      .map(({ objectRef }) => objectRef?.name ?? "");
  const pods = new Set(history.changes().flatMap(({ kind, object }) => (kind === "Pod" ? [object.metadata.name] : [])));
  const answered = named("pods", (code) => code === 201);
  const unanswered = new Set(named("pods", (code) => code !== 201));
  expect(answered.filter((name, i) => !pods.has(name) || answered.indexOf(name) !== i)).toEqual([]);
  const unlogged = [...pods].filter((name) => !answered.includes(name));
  measured(`stored and not logged as answered with 201: ${unlogged.length}`);
  expect(unlogged.filter((name) => !killsTheCaller || !unanswered.has(name))).toEqual([]);
  expect(named("replicasets", (code) => code === 201)).toHaveLength(2);
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
