// Would catch: a machine that shuts down before its pods have ended, a shutdown that waits needlessly, pods that are stopped in the wrong
// order or without a reason, and a node that rejects pods after a cancelled shutdown.
import { expect, test } from "vitest";

import { createMemoryLogind } from "../../../support/memory-logind.ts";
import type { MemoryLogind } from "../../../support/memory-logind.ts";
import type { ShutdownGracePeriod } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import type { Metrics } from "../../../../shared/base/metrics/metrics.ts";
import { countedMetrics } from "../../../support/counted.ts";
import { NODE, startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness, NodeHarnessOptions } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const CRITICAL = 2_000_000_000;
const APP = { name: "app", image: "app:1" };
/** A container that ends only when it is killed. */
const STUBBORN = { name: "app", image: "stubborn:1" };
const SHUTDOWN: readonly ShutdownGracePeriod[] = [
  { priority: 0, seconds: 20 },
  { priority: CRITICAL, seconds: 10 },
];
const MESSAGE = "Pod was terminated in response to imminent node shutdown.";

interface Started {
  readonly node: NodeHarness;
  readonly logind: MemoryLogind;
}

async function started(
  options: NodeHarnessOptions & { readonly shutdown?: typeof SHUTDOWN; readonly logind?: MemoryLogind } = {},
): Promise<Started> {
  const { logind = createMemoryLogind(), shutdown = SHUTDOWN, ...rest } = options;
  const images = { "stubborn:1": { stopAfterMs: "never" as const } };
  return { logind, node: await startedNode({ images, ...rest, logind, nodeOptions: { shutdown } }) };
}

async function running(node: NodeHarness, ...names: readonly string[]): Promise<void> {
  await node.until("all run", () => names.every((name) => node.isReady(name)));
}

interface Ready {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

function ready(node: NodeHarness): Ready | undefined {
  const stored = node.server.peek("nodes", "", NODE) as unknown as {
    readonly status: { readonly conditions: readonly (Ready & { readonly type: string })[] };
  }; // the agent's own Node
  return stored.status.conditions.find(({ type }) => type === "Ready");
}

function events(node: NodeHarness, reason: string): readonly unknown[] {
  const sent = node.requests.flatMap(({ path, body }) =>
    path.endsWith("/events") && body !== undefined ? [body as { readonly reason: string; readonly message: string }] : [],
  ); // Events
  return sent.filter((event) => event.reason === reason).map(({ message }) => message);
}

function ended(node: NodeHarness): readonly string[] {
  return node
    .pods()
    .flatMap(({ metadata, status }) => (status?.phase === "Failed" && status.reason === "Terminated" ? [metadata.name] : []))
    .toSorted();
}

test("[node-agent 456] lets the shutdown proceed after the pods have terminated, low priorities first, and each pod reports the reason", async () => {
  const { node, logind } = await started();
  const uid = await node.create("low", { containers: [APP] });
  await node.create("critical", { containers: [APP], priority: CRITICAL });
  await running(node, "low", "critical");
  expect(logind.locks()).toBe(1);
  const order: string[] = [];
  node.onCall = ({ verb, args }) => void (verb === "stopContainer" && order.push(`${String(args[1])} s`));
  logind.prepareForShutdown(true);
  await node.until("the lock is let go", () => logind.locks() === 0, 5 * SECONDS);
  expect(order).toEqual(["20 s", "10 s"]);
  expect(await node.running(uid)).toEqual([]);
  await node.until("both are told", () => ended(node).length === 2, 2 * SECONDS);
  const status = node.pod("low")?.status;
  expect(status).toMatchObject({ phase: "Failed", reason: "Terminated", message: MESSAGE });
  expect(status?.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
    status: "True",
    reason: "TerminationByKubelet",
    message: MESSAGE,
  });
  expect(events(node, "NodeShutdown")).toEqual(["Shutdown manager detected shutdown event"]);
});

test("[node-agent 456] makes the node NotReady and rejects pods immediately", async () => {
  const { node, logind } = await started();
  await node.create("slow", { containers: [STUBBORN] });
  await running(node, "slow");
  logind.prepareForShutdown(true);
  await node.advance(500);
  expect(ready(node)).toMatchObject({ status: "False", reason: "KubeletNotReady", message: "node is shutting down" });
  await node.create("late", { containers: [APP] });
  await node.until("it is turned away", () => node.phase("late") === "Failed", 5 * SECONDS);
  expect(node.pod("late")?.status).toMatchObject({
    reason: "NodeShutdown",
    message: "Pod was rejected: Pod was rejected as the node is shutting down.",
  });
});

test("[node-agent 456] waits for pods no longer than their group's period, and skips groups without one", async () => {
  const shutdown = [
    { priority: 0, seconds: 20 },
    { priority: 100, seconds: 300 },
    { priority: 1_000, seconds: 10 },
  ];
  const { node, logind } = await started({ shutdown });
  await node.create("low", { containers: [STUBBORN], terminationGracePeriodSeconds: 600 });
  await node.create("short", { containers: [STUBBORN], terminationGracePeriodSeconds: 3 });
  await node.create("high", { containers: [STUBBORN], terminationGracePeriodSeconds: 600, priority: 5_000 });
  await running(node, "low", "short", "high");
  const stops: [string, number][] = [];
  const beganMs = node.clock.now();
  node.onCall = ({ verb, args, atMs }) =>
    void (verb === "stopContainer" && stops.push([`${String(args[1])} s`, Math.round((atMs - beganMs) / SECONDS)]));
  logind.prepareForShutdown(true);
  await node.until("the lock is let go", () => logind.locks() === 0, 60 * SECONDS);
  expect(stops.toSorted()).toEqual([
    ["10 s", 20],
    ["20 s", 0],
    ["3 s", 0],
  ]);
  const tookMs = node.clock.now() - beganMs;
  expect(tookMs).toBeGreaterThanOrEqual(29 * SECONDS);
  expect(tookMs).toBeLessThanOrEqual(31 * SECONDS);
});

test("[node-agent 456] a runtime that does not stop a pod delays neither other pods nor the shutdown beyond the period", async () => {
  const { node, logind } = await started();
  await node.create("low", { containers: [APP] });
  await node.create("critical", { containers: [APP], priority: CRITICAL });
  await running(node, "low", "critical");
  const hangs = new Promise(() => undefined);
  node.fateOf = ({ verb, args }) => (verb === "stopContainer" && args[1] === 20 ? { after: hangs } : "live");
  const beganMs = node.clock.now();
  logind.prepareForShutdown(true);
  await node.until("the lock is let go", () => logind.locks() === 0, 60 * SECONDS);
  expect(Math.floor((node.clock.now() - beganMs) / SECONDS)).toBe(20);
  await node.until("the other one is told", () => ended(node).includes("critical"), 2 * SECONDS);
});

test("[node-agent 456] a pod that succeeded just before the shutdown, unobserved, becomes Succeeded", async () => {
  const { node, logind } = await started({ images: { "job:1": { exitAfterMs: 3_100 } } });
  const uid = await node.create("job", { containers: [{ name: "app", image: "job:1" }], restartPolicy: "Never" });
  await running(node, "job");
  await node.until("it has ended", async () => (await node.running(uid)).length === 0);
  expect(node.phase("job")).toBe("Running");
  logind.prepareForShutdown(true);
  await node.until("it is told", () => node.phase("job") !== "Running", 5 * SECONDS);
  expect(node.pod("job")?.status).toMatchObject({ phase: "Succeeded", reason: "Terminated" });
});

test("[node-agent 456] makes the node Ready, admits pods and takes an inhibitor lock after a cancelled shutdown", async () => {
  const { node, logind } = await started();
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  logind.prepareForShutdown(true);
  await node.until("the lock is let go", () => logind.locks() === 0, 5 * SECONDS);
  logind.prepareForShutdown(false);
  await node.advance(SECONDS);
  expect([logind.locks(), ready(node)?.status]).toEqual([1, "True"]);
  expect(events(node, "NodeShutdown")).toEqual([
    "Shutdown manager detected shutdown event",
    "Shutdown manager detected shutdown cancellation",
  ]);
  await node.create("new", { containers: [APP] });
  await running(node, "new");
  expect(node.phase("p")).toBe("Failed");
});

test("[node-agent 456] keeps the pods of later groups running when a shutdown is cancelled midway", async () => {
  const { node, logind } = await started();
  await node.create("low", { containers: [STUBBORN] });
  await node.create("critical", { containers: [APP], priority: CRITICAL });
  await running(node, "low", "critical");
  logind.prepareForShutdown(true);
  await node.advance(5 * SECONDS);
  logind.prepareForShutdown(false);
  await node.advance(40 * SECONDS);
  expect([node.phase("low"), node.isReady("critical"), ready(node)?.status, logind.locks()]).toEqual(["Failed", true, "True", 1]);
});

test("[node-agent 457] reconnects after the bus connection is lost, and handles changes made in the meantime", async () => {
  const { node, logind } = await started();
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  logind.restart();
  await node.advance(2 * SECONDS);
  expect(logind.locks()).toBe(1);
  logind.restart();
  logind.prepareForShutdown(true);
  await node.until("the pod has ended", () => ended(node).length === 1, 5 * SECONDS);
  logind.restart();
  logind.prepareForShutdown(false);
  await node.until("it is Ready again", () => ready(node)?.status === "True", 10 * SECONDS);
  expect(logind.locks()).toBe(1);
});

test("[node-agent 457] takes a new inhibitor lock after the lock was lost", async () => {
  const logind = createMemoryLogind();
  const locks: (() => Promise<void>)[] = [];
  const inhibitShutdown: MemoryLogind["inhibitShutdown"] = async () => {
    const lock = await logind.inhibitShutdown();
    locks.push(lock.release);
    return lock;
  };
  const { node } = await started({ logind: { ...logind, inhibitShutdown } });
  await locks[0]?.();
  expect(logind.locks()).toBe(0);
  await node.advance(2 * SECONDS);
  expect(logind.locks()).toBe(1);
});

test("[node-agent 457] extends a shutdown delay that is too short, or logs an error if that fails", async () => {
  const asked = createMemoryLogind({ inhibitDelayMs: 5_000 });
  await started({ logind: asked });
  expect(await asked.inhibitDelayMs()).toBe(30_000);

  const deaf = createMemoryLogind({ inhibitDelayMs: 5_000 });
  const lines: string[] = [];
  const { node } = await started({ logind: { ...deaf, overrideInhibitDelay: async () => undefined }, log: (line) => lines.push(line) });
  await node.advance(130 * SECONDS);
  expect(deaf.locks()).toBe(0);
  expect(lines.filter((line) => line.includes("failed to watch for node shutdowns"))).toMatchObject([
    expect.stringContaining("the shutdown delay is limited to 5 s, but the grace periods need 30 s"),
  ]);
});

test("[node-agent 457] takes no inhibitor lock and ignores shutdowns on a node without shutdown grace periods", async () => {
  const logind = createMemoryLogind();
  const { node } = await started({ logind, shutdown: [] });
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  logind.prepareForShutdown(true);
  await node.advance(10 * SECONDS);
  expect([logind.locks(), node.isReady("p"), ready(node)?.status]).toEqual([0, true, "True"]);
});

test("[node-agent 457] exposes the time of the last shutdown even after a reboot", async () => {
  const told: (readonly [string, number])[] = [];
  const counted = countedMetrics();
  const metrics: Metrics = {
    ...counted,
    set: (name, labels, value) => {
      if (name.startsWith("kubelet_graceful")) told.push([name, value]);
      counted.set(name, labels, value);
    },
  };
  const { node, logind } = await started({ metrics });
  await node.create("p", { containers: [STUBBORN], terminationGracePeriodSeconds: 4 });
  await running(node, "p");
  expect(told).toEqual([]);
  const startSeconds = Math.trunc(node.clock.now() / SECONDS);
  logind.prepareForShutdown(true);
  await node.until("the lock is let go", () => logind.locks() === 0, 10 * SECONDS);
  logind.prepareForShutdown(true); // the same signal as before
  await node.advance(SECONDS);
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
  node.start();
  await node.advance(SECONDS);
  expect(told).toEqual(both);
});
