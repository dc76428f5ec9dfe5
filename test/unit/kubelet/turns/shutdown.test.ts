// Would catch: a machine that goes before its pods have, one that waits for nothing, pods that end in the wrong order or without a word
// why, and a node that never takes pods again after a shutdown that was called off.
import { expect, test } from "vitest";

import { createMemoryLogind } from "../../../../shared/adapters/memory/logind.ts";
import type { MemoryLogind } from "../../../../shared/adapters/memory/logind.ts";
import type { ShutdownGracePeriod } from "../../../../shared/kubelet/nodeshutdown/grace-periods.ts";
import type { Metrics } from "../../../../shared/ports/metrics.ts";
import { countedMetrics } from "../../../support/counted.ts";
import { NODE, startedNode } from "../../../harness/node/node.ts";
import type { NodeRig, NodeRigOptions } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const CRITICAL = 2_000_000_000;
const APP = { name: "app", image: "app:1" };
/** It ends only when it is killed. */
const STUBBORN = { name: "app", image: "stubborn:1" };
const SHUTDOWN: readonly ShutdownGracePeriod[] = [
  { priority: 0, seconds: 20 },
  { priority: CRITICAL, seconds: 10 },
];
const MESSAGE = "Pod was terminated in response to imminent node shutdown.";

interface Started {
  readonly rig: NodeRig;
  readonly logind: MemoryLogind;
}

async function started(
  options: NodeRigOptions & { readonly shutdown?: typeof SHUTDOWN; readonly logind?: MemoryLogind } = {},
): Promise<Started> {
  const { logind = createMemoryLogind(), shutdown = SHUTDOWN, ...rest } = options;
  const images = { "stubborn:1": { stopAfterMs: "never" as const } };
  return { logind, rig: await startedNode({ images, ...rest, logind, nodeOptions: { shutdown } }) };
}

async function running(rig: NodeRig, ...names: readonly string[]): Promise<void> {
  await rig.until("all run", () => names.every((name) => rig.isReady(name)));
}

interface Ready {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

function ready(rig: NodeRig): Ready | undefined {
  const node = rig.server.peek("nodes", "", NODE) as unknown as {
    readonly status: { readonly conditions: readonly (Ready & { readonly type: string })[] };
  }; // the agent's own Node
  return node.status.conditions.find(({ type }) => type === "Ready");
}

function events(rig: NodeRig, reason: string): readonly unknown[] {
  const sent = rig.requests.flatMap(({ path, body }) =>
    path.endsWith("/events") && body !== undefined ? [body as { readonly reason: string; readonly message: string }] : [],
  ); // Events
  return sent.filter((event) => event.reason === reason).map(({ message }) => message);
}

function ended(rig: NodeRig): readonly string[] {
  return rig
    .pods()
    .flatMap(({ metadata, status }) => (status?.phase === "Failed" && status.reason === "Terminated" ? [metadata.name] : []))
    .toSorted();
}

test("[node-agent 456] the machine goes once its pods have, those of low priority first, and each says why", async () => {
  const { rig, logind } = await started();
  const uid = await rig.create("low", { containers: [APP] });
  await rig.create("critical", { containers: [APP], priority: CRITICAL });
  await running(rig, "low", "critical");
  expect(logind.locks()).toBe(1);
  const order: string[] = [];
  rig.onCall = ({ verb, args }) => void (verb === "stopContainer" && order.push(`${String(args[1])} s`));
  logind.prepareForShutdown(true);
  await rig.until("the lock is let go", () => logind.locks() === 0, 5 * SECONDS);
  expect(order).toEqual(["20 s", "10 s"]);
  expect(await rig.running(uid)).toEqual([]);
  await rig.until("both are told", () => ended(rig).length === 2, 2 * SECONDS);
  const status = rig.pod("low")?.status;
  expect(status).toMatchObject({ phase: "Failed", reason: "Terminated", message: MESSAGE });
  expect(status?.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
    status: "True",
    reason: "TerminationByKubelet",
    message: MESSAGE,
  });
  expect(events(rig, "NodeShutdown")).toEqual(["Shutdown manager detected shutdown event"]);
});

test("[node-agent 456] from the first moment the node is not Ready and takes no pod", async () => {
  const { rig, logind } = await started();
  await rig.create("slow", { containers: [STUBBORN] });
  await running(rig, "slow");
  logind.prepareForShutdown(true);
  await rig.advance(500);
  expect(ready(rig)).toMatchObject({ status: "False", reason: "KubeletNotReady", message: "node is shutting down" });
  await rig.create("late", { containers: [APP] });
  await rig.until("it is turned away", () => rig.phase("late") === "Failed", 5 * SECONDS);
  expect(rig.pod("late")?.status).toMatchObject({
    reason: "NodeShutdown",
    message: "Pod was rejected: Pod was rejected as the node is shutting down.",
  });
});

test("[node-agent 456] nobody waits for pods longer than their group has, nor for a group that has none", async () => {
  const shutdown = [
    { priority: 0, seconds: 20 },
    { priority: 100, seconds: 300 },
    { priority: 1_000, seconds: 10 },
  ];
  const { rig, logind } = await started({ shutdown });
  await rig.create("low", { containers: [STUBBORN], terminationGracePeriodSeconds: 600 });
  await rig.create("short", { containers: [STUBBORN], terminationGracePeriodSeconds: 3 });
  await rig.create("high", { containers: [STUBBORN], terminationGracePeriodSeconds: 600, priority: 5_000 });
  await running(rig, "low", "short", "high");
  const stops: [string, number][] = [];
  const beganMs = rig.clock.now();
  rig.onCall = ({ verb, args, atMs }) =>
    void (verb === "stopContainer" && stops.push([`${String(args[1])} s`, Math.round((atMs - beganMs) / SECONDS)]));
  logind.prepareForShutdown(true);
  await rig.until("the lock is let go", () => logind.locks() === 0, 60 * SECONDS);
  expect(stops.toSorted()).toEqual([
    ["10 s", 20],
    ["20 s", 0],
    ["3 s", 0],
  ]);
  const tookMs = rig.clock.now() - beganMs;
  expect(tookMs).toBeGreaterThanOrEqual(29 * SECONDS);
  expect(tookMs).toBeLessThanOrEqual(31 * SECONDS);
});

test("[node-agent 456] a runtime that does not end a pod does not hold up the others, nor the machine for longer than was asked for", async () => {
  const { rig, logind } = await started();
  await rig.create("low", { containers: [APP] });
  await rig.create("critical", { containers: [APP], priority: CRITICAL });
  await running(rig, "low", "critical");
  const hangs = new Promise(() => undefined);
  rig.fateOf = ({ verb, args }) => (verb === "stopContainer" && args[1] === 20 ? { after: hangs } : "live");
  const beganMs = rig.clock.now();
  logind.prepareForShutdown(true);
  await rig.until("the lock is let go", () => logind.locks() === 0, 60 * SECONDS);
  expect(Math.floor((rig.clock.now() - beganMs) / SECONDS)).toBe(20);
  await rig.until("the other one is told", () => ended(rig).includes("critical"), 2 * SECONDS);
});

test("[node-agent 456] a pod that had just succeeded, which nobody has seen yet, has succeeded", async () => {
  const { rig, logind } = await started({ images: { "job:1": { exitAfterMs: 3_100 } } });
  const uid = await rig.create("job", { containers: [{ name: "app", image: "job:1" }], restartPolicy: "Never" });
  await running(rig, "job");
  await rig.until("it has ended", async () => (await rig.running(uid)).length === 0);
  expect(rig.phase("job")).toBe("Running");
  logind.prepareForShutdown(true);
  await rig.until("it is told", () => rig.phase("job") !== "Running", 5 * SECONDS);
  expect(rig.pod("job")?.status).toMatchObject({ phase: "Succeeded", reason: "Terminated" });
});

test("[node-agent 456] a shutdown that is called off: the node is Ready again, takes pods, holds a lock", async () => {
  const { rig, logind } = await started();
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  logind.prepareForShutdown(true);
  await rig.until("the lock is let go", () => logind.locks() === 0, 5 * SECONDS);
  logind.prepareForShutdown(false);
  await rig.advance(SECONDS);
  expect([logind.locks(), ready(rig)?.status]).toEqual([1, "True"]);
  expect(events(rig, "NodeShutdown")).toEqual([
    "Shutdown manager detected shutdown event",
    "Shutdown manager detected shutdown cancellation",
  ]);
  await rig.create("new", { containers: [APP] });
  await running(rig, "new");
  expect(rig.phase("p")).toBe("Failed");
});

test("[node-agent 456] called off in the middle it spares the pods whose turn has not come", async () => {
  const { rig, logind } = await started();
  await rig.create("low", { containers: [STUBBORN] });
  await rig.create("critical", { containers: [APP], priority: CRITICAL });
  await running(rig, "low", "critical");
  logind.prepareForShutdown(true);
  await rig.advance(5 * SECONDS);
  logind.prepareForShutdown(false);
  await rig.advance(40 * SECONDS);
  expect([rig.phase("low"), rig.isReady("critical"), ready(rig)?.status, logind.locks()]).toEqual(["Failed", true, "True", 1]);
});

test("[node-agent 457] a bus that goes away is found again, and what happened meanwhile counts", async () => {
  const { rig, logind } = await started();
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  logind.restart();
  await rig.advance(2 * SECONDS);
  expect(logind.locks()).toBe(1);
  logind.restart();
  logind.prepareForShutdown(true);
  await rig.until("the pod has ended", () => ended(rig).length === 1, 5 * SECONDS);
  logind.restart();
  logind.prepareForShutdown(false);
  await rig.until("it is Ready again", () => ready(rig)?.status === "True", 10 * SECONDS);
  expect(logind.locks()).toBe(1);
});

test("[node-agent 457] a lock that is lost is taken again", async () => {
  const logind = createMemoryLogind();
  const locks: (() => Promise<void>)[] = [];
  const inhibitShutdown: MemoryLogind["inhibitShutdown"] = async () => {
    const lock = await logind.inhibitShutdown();
    locks.push(lock.release);
    return lock;
  };
  const { rig } = await started({ logind: { ...logind, inhibitShutdown } });
  await locks[0]?.();
  expect(logind.locks()).toBe(0);
  await rig.advance(2 * SECONDS);
  expect(logind.locks()).toBe(1);
});

test("[node-agent 457] a shutdown that would not wait so long is told to, or the machine is not watched and it is said", async () => {
  const asked = createMemoryLogind({ inhibitDelayMs: 5_000 });
  await started({ logind: asked });
  expect(await asked.inhibitDelayMs()).toBe(30_000);

  const deaf = createMemoryLogind({ inhibitDelayMs: 5_000 });
  const lines: string[] = [];
  const { rig } = await started({ logind: { ...deaf, overrideInhibitDelay: async () => undefined }, log: (line) => lines.push(line) });
  await rig.advance(130 * SECONDS);
  expect(deaf.locks()).toBe(0);
  expect(lines.filter((line) => line.includes("would not be noticed"))).toMatchObject([
    expect.stringContaining("a shutdown waits for 5 s at most, pods were promised 30 s"),
  ]);
});

test("[node-agent 457] nobody is asked on a node that gives pods no time", async () => {
  const logind = createMemoryLogind();
  const { rig } = await started({ logind, shutdown: [] });
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  logind.prepareForShutdown(true);
  await rig.advance(10 * SECONDS);
  expect([logind.locks(), rig.isReady("p"), ready(rig)?.status]).toEqual([0, true, "True"]);
});

test("[node-agent 457] when the last shutdown was is told, also after the machine has started again", async () => {
  const told: (readonly [string, number])[] = [];
  const counted = countedMetrics();
  const metrics: Metrics = {
    ...counted,
    set: (name, labels, value) => {
      if (name.startsWith("kubelet_graceful")) told.push([name, value]);
      counted.set(name, labels, value);
    },
  };
  const { rig, logind } = await started({ metrics });
  await rig.create("p", { containers: [STUBBORN], terminationGracePeriodSeconds: 4 });
  await running(rig, "p");
  expect(told).toEqual([]);
  const startSeconds = Math.trunc(rig.clock.now() / SECONDS);
  logind.prepareForShutdown(true);
  await rig.until("the lock is let go", () => logind.locks() === 0, 10 * SECONDS);
  logind.prepareForShutdown(true); // the same one
  await rig.advance(SECONDS);
  const endSeconds = told.at(-1)?.[1] ?? 0;
  const [START, END] = ["kubelet_graceful_shutdown_start_time_seconds", "kubelet_graceful_shutdown_end_time_seconds"];
  const both = [
    [START, startSeconds],
    [END, endSeconds],
  ];
  expect(told).toEqual([[START, startSeconds], [END, 0], ...both]);
  expect(endSeconds - startSeconds).toBeGreaterThanOrEqual(4);
  expect(endSeconds - startSeconds).toBeLessThanOrEqual(6);
  told.length = 0;
  logind.prepareForShutdown(false);
  rig.start();
  await rig.advance(SECONDS);
  expect(told).toEqual(both);
});
