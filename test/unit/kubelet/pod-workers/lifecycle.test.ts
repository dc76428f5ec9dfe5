// Would catch: a pod status that does not reflect its containers: restarts, back-off, init order, messages, probes, hooks, deadlines.
import { expect, test } from "vitest";
import type { ContainerScript } from "../../../../shared/node-agent/memory/cri/cri-script.ts";
import type { ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { LABELS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import type { HttpProbe } from "../../../../shared/node-agent/ports/prober.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };
const SECONDS = 1_000;

function status(node: NodeHarness, pod: string, container = "app"): ContainerStatusEntry | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = node.pod(pod)?.status ?? {};
  return [...initContainerStatuses, ...containerStatuses].find(({ name }) => name === container);
}

async function startTimes(node: NodeHarness, uid: string, image: string): Promise<readonly number[]> {
  const times = new Set<number>();
  for (const { metadata, startedAtMs, labels } of await node.containers(uid))
    if (metadata.name === image && labels[LABELS.podUid] === uid && startedAtMs !== undefined) times.add(startedAtMs);
  return [...times];
}

test.each([
  { restartPolicy: "Always", exitCode: 0, phase: "Running", restarts: true },
  { restartPolicy: "Always", exitCode: 1, phase: "Running", restarts: true },
  { restartPolicy: "OnFailure", exitCode: 0, phase: "Succeeded", restarts: false },
  { restartPolicy: "OnFailure", exitCode: 1, phase: "Running", restarts: true },
  { restartPolicy: "Never", exitCode: 0, phase: "Succeeded", restarts: false },
  { restartPolicy: "Never", exitCode: 1, phase: "Failed", restarts: false },
])(
  "[node-agent 92] a container that exits with $exitCode under $restartPolicy: phase $phase, restarted: $restarts",
  async ({ restartPolicy, exitCode, phase, restarts }) => {
    const node = await startedNode({ images: { "ends:1": { exitAfterMs: 3 * SECONDS, exitCode } } });
    await node.create("p", { restartPolicy, containers: [{ ...APP, image: "ends:1" }] });
    await node.advance(40 * SECONDS);
    expect(node.phase("p")).toBe(phase);
    expect(status(node, "p")?.restartCount).toBe(restarts ? 2 : 0);
    expect(node.isReady("p")).toBe(false);
    const ended = restarts ? status(node, "p")?.lastState?.terminated : status(node, "p")?.state?.terminated;
    expect(ended?.exitCode).toBe(exitCode);
  },
);

test("[node-agent 91] waits 0, 10, 20, 40, 80, 160, 300, 300 s after each exit, and 0 s after a run of 11 min", async () => {
  const script = { exitAfterMs: 0, exitCode: 1 };
  const node = await startedNode({ images: { "fails:1": script } });
  const uid = await node.create("p", { containers: [{ ...APP, image: "fails:1" }] });
  const waits: number[] = [];
  let lastStart: number | undefined;
  let lastEnd = 0;
  while (waits.length < 9) {
    await node.advance(SECONDS / 4);
    const newest = (await node.containers(uid)).at(-1);
    if (newest?.startedAtMs === undefined || newest.startedAtMs === lastStart) {
      lastEnd = newest?.finishedAtMs ?? lastEnd;
      continue;
    }
    if (lastStart !== undefined) waits.push((newest.startedAtMs - lastEnd) / SECONDS);
    lastStart = newest.startedAtMs;
    lastEnd = newest.finishedAtMs ?? lastEnd;
    // Instances from the eighth restart on keep running.
    if (waits.length === 7) script.exitAfterMs = 11 * 60 * SECONDS;
  }
  const wanted = [0, 10, 20, 40, 80, 160, 300, 300, 0];
  for (const [index, wait] of waits.entries()) {
    const least = wanted[index] ?? 0;
    expect.soft(wait, `wait ${index}`).toBeGreaterThanOrEqual(least);
    // Synced again within half of the remaining time, at most 30 s late, plus relist and tick.
    expect.soft(wait, `wait ${index}`).toBeLessThanOrEqual(least + Math.min(least / 2, 30) + 3);
  }
});

test("removes earlier dead instances immediately, with their logs, when an instance dies", async () => {
  const output = [{ stream: "stdout", text: "here I am" }] as const;
  const node = await startedNode({ images: { "fails:1": { exitAfterMs: 3 * SECONDS, exitCode: 1, output } } });
  const uid = await node.create("p", { containers: [{ ...APP, image: "fails:1" }] });
  const logs = new Set<string>();
  for (let second = 0; second < 30; second++) {
    await node.advance(SECONDS);
    const instances = await node.containers(uid);
    for (const { logPath } of instances) logs.add(logPath);
    const dead = instances.filter(({ state }) => state === "CONTAINER_EXITED");
    // One instance has just ended and has not been observed yet.
    expect(dead.length).toBeLessThanOrEqual(2);
    expect([...logs].filter((path) => node.files.read(path) !== undefined).length).toBe(instances.length);
  }
  expect(logs.size).toBe(3);
  expect(await node.containers(uid)).toHaveLength(1);
});

test("[node-agent 93] keeps the termination message while the pod's directory is removed slowly", async () => {
  const node = await startedNode({ images: { "file:1": { exitAfterMs: 5 * SECONDS } } });
  const uid = await node.create("p", { restartPolicy: "Never", containers: [{ name: "file", image: "file:1" }] });
  await node.until("it runs", async () => (await node.running(uid)).length === 1);
  for (const { mounts } of await node.containers(uid))
    for (const { hostPath, containerPath } of mounts) if (containerPath === "/dev/termination-log") node.files.write(hostPath, "DONE");
  // The sync that removes the directory stops waiting after 2 s; the next one observes the container without its log.
  node.fateOf = ({ verb }) => (verb === "removePodDirectory" ? { after: node.clock.after(5 * SECONDS) } : "live");
  await node.until("the pod ended", () => node.phase("p") === "Succeeded");
  await node.until("the directory is removed", async () => (await node.files.podsWithDirectories()).length === 0, 60 * SECONDS);
  await node.advance(60 * SECONDS);
  expect(node.pod("p")?.status?.containerStatuses?.[0]?.state?.terminated?.message).toBe("DONE");
});

test("[node-agent 93] reports the termination message from a file at any path, or the end of the log after a failure, and none after a success", async () => {
  const node = await startedNode({
    images: {
      "file:1": { exitAfterMs: 5 * SECONDS },
      "talks:1": { exitAfterMs: 5 * SECONDS, exitCode: 1, output: [{ stream: "stderr", text: "no such file" }] },
      "quiet:1": { exitAfterMs: 5 * SECONDS, output: [{ stream: "stdout", text: "all well" }] },
    },
  });
  const uid = await node.create("p", {
    restartPolicy: "Never",
    containers: [
      { name: "file", image: "file:1" },
      { name: "path", image: "file:1", terminationMessagePath: "/tmp/message" },
      { name: "log", image: "talks:1", terminationMessagePolicy: "FallbackToLogsOnError" },
      { name: "success", image: "quiet:1", terminationMessagePolicy: "FallbackToLogsOnError" },
    ],
  });
  await node.until("all run", async () => (await node.running(uid)).length === 4);
  for (const { metadata, mounts } of await node.containers(uid))
    for (const { hostPath, containerPath } of mounts)
      if (containerPath === "/dev/termination-log" && metadata.name === "file") node.files.write(hostPath, "DONE");
      else if (containerPath === "/tmp/message") node.files.write(hostPath, "there too");
  await node.until("the pod ended", () => node.phase("p") === "Failed");
  const message = (name: string): string | undefined => status(node, "p", name)?.state?.terminated?.message;
  expect([message("file"), message("path"), message("log"), message("success")]).toEqual(["DONE", "there too", "no such file", undefined]);
});

test.each(["Always", "Never"])(
  "[node-agent 94] runs init containers one after another and then the app with restartPolicy %s",
  async (restartPolicy) => {
    const node = await startedNode({ images: { "init:1": { exitAfterMs: 2 * SECONDS } } });
    const uid = await node.create("p", {
      restartPolicy,
      initContainers: ["init1", "init2"].map((name) => ({ name, image: "init:1" })),
      containers: [APP],
    });
    await node.until("ready", () => node.isReady("p"));
    const [at1 = 0, at2 = 0, at3 = 0] = (await Promise.all(["init1", "init2", "app"].map((name) => startTimes(node, uid, name)))).map(
      ([atMs]) => atMs ?? Number.NaN,
    );
    expect(at2 - at1).toBeGreaterThanOrEqual(2 * SECONDS);
    expect(at3 - at2).toBeGreaterThanOrEqual(2 * SECONDS);
    expect(node.pod("p")?.status?.conditions?.find(({ type }) => type === "Initialized")?.status).toBe("True");
    expect(status(node, "p", "init1")).toMatchObject({ restartCount: 0, ready: true, state: { terminated: { exitCode: 0 } } });
  },
);

test.each([
  { restartPolicy: "Always", phase: "Pending", retried: true },
  { restartPolicy: "Never", phase: "Failed", retried: false },
])(
  "[node-agent 95] never starts the app when an init container fails under $restartPolicy: phase $phase",
  async ({ restartPolicy, phase, retried }) => {
    const node = await startedNode({ images: { "fails:1": { exitAfterMs: SECONDS, exitCode: 1 } } });
    const uid = await node.create("p", { restartPolicy, initContainers: [{ name: "init1", image: "fails:1" }], containers: [APP] });
    await node.advance(60 * SECONDS);
    expect(node.phase("p")).toBe(phase);
    const restartCount = status(node, "p", "init1")?.restartCount ?? 0;
    expect(restartCount > 1).toBe(retried);
    expect(await startTimes(node, uid, "app")).toEqual([]);
    expect(status(node, "p")).toMatchObject({ started: false, state: { waiting: { reason: "PodInitializing" } } });
  },
);

test("[node-agent 96] a pod is not ready before the readiness probe's initial delay, and ready after it", async () => {
  const node = await startedNode();
  await node.create("p", {
    containers: [{ ...APP, readinessProbe: { exec: { command: ["true"] }, initialDelaySeconds: 30, periodSeconds: 5 } }],
  });
  await node.until("it runs", () => node.phase("p") === "Running");
  const startedMs = Date.parse(status(node, "p")?.state?.running?.startedAt ?? "");
  await node.until("ready", () => node.isReady("p"));
  expect(node.clock.now() - startedMs).toBeGreaterThanOrEqual(30 * SECONDS);
  expect(node.clock.now() - startedMs).toBeLessThan(38 * SECONDS);
});

test("[node-agent 96] a pod never becomes ready and is never restarted if its readiness probe always fails", async () => {
  const node = await startedNode({ images: { "sick:1": { exec: () => ({ exitCode: 1 }) } } });
  await node.create("p", { containers: [{ ...APP, image: "sick:1", readinessProbe: { exec: { command: ["false"] }, periodSeconds: 1 } }] });
  for (let second = 0; second < 60; second++) {
    await node.advance(SECONDS);
    expect(node.isReady("p")).toBe(false);
  }
  expect(node.phase("p")).toBe("Running");
  expect(status(node, "p")?.restartCount).toBe(0);
});

const LIVENESS = {
  exec: { exec: { command: ["check"] } },
  http: { httpGet: { port: 80, path: "/healthz" } },
  tcp: { tcpSocket: { port: 80 } },
  grpc: { grpc: { port: 80 } },
};

test.each(Object.keys(LIVENESS) as readonly (keyof typeof LIVENESS)[])(
  "[node-agent 97] a liveness probe by %s restarts only the container that fails it",
  async (kind) => {
    const well: ContainerScript = { readyAfterMs: 0 };
    const sick: ContainerScript = { exec: () => ({ exitCode: 1 }) };
    const node = await startedNode({ images: { "well:1": well, "sick:1": sick } });
    const livenessProbe = { ...LIVENESS[kind], initialDelaySeconds: 2, periodSeconds: 1, failureThreshold: 1 };
    await node.create("well", { containers: [{ ...APP, image: "well:1", livenessProbe }] });
    await node.create("sick", { containers: [{ ...APP, image: "sick:1", livenessProbe }] });
    await node.advance(30 * SECONDS);
    expect(status(node, "well")?.restartCount).toBe(0);
    expect(status(node, "sick")?.restartCount).toBeGreaterThanOrEqual(1);
  },
);

test("[node-agent 97] the restart count of a failing liveness probe reaches 5 and never decreases", async () => {
  const node = await startedNode({ images: { "sick:1": { exec: () => ({ exitCode: 1 }) } } });
  const livenessProbe = { exec: { command: ["check"] }, initialDelaySeconds: 1, periodSeconds: 1, failureThreshold: 1 };
  await node.create("p", { containers: [{ ...APP, image: "sick:1", livenessProbe }] });
  let highest = 0;
  await node.until(
    "5 restarts",
    () => {
      const count = status(node, "p")?.restartCount ?? 0;
      expect(count).toBeGreaterThanOrEqual(highest);
      highest = count;
      return count >= 5;
    },
    400 * SECONDS,
  );
});

test.each(["exec", "http"])(
  "[node-agent 98] runs postStart by %s before the next container starts, and preStop before the stop",
  async (kind) => {
    const heard: { readonly what: string; readonly atMs: number }[] = [];
    const hear = (what: string): void => void heard.push({ what, atMs: node.clock.now() });
    const node: NodeHarness = await startedNode({
      images: {
        "hooked:1": {
          exec: ([what = ""]) => {
            hear(what);
            return { afterMs: 2 * SECONDS };
          },
        },
      },
      prober: {
        httpGet: async ({ path }: HttpProbe) => {
          hear(path.slice(1));
          await node.clock.after(2 * SECONDS);
          return { result: "Success", output: "" };
        },
      },
    });
    const hook = (name: string) => (kind === "exec" ? { exec: { command: [name] } } : { httpGet: { path: `/${name}`, port: 80 } });
    const uid = await node.create("p", {
      containers: [
        { ...APP, image: "hooked:1", lifecycle: { postStart: hook("post"), preStop: hook("pre") } },
        { name: "next", image: "app:1" },
      ],
    });
    await node.until("ready", () => node.isReady("p"));
    const [nextAtMs = 0] = await startTimes(node, uid, "next");
    expect(heard.map(({ what }) => what)).toEqual(["post"]);
    expect(nextAtMs - (heard[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(2 * SECONDS);

    await node.delete("p");
    await node.until("gone", () => node.pod("p") === undefined);
    expect(heard.map(({ what }) => what)).toEqual(["post", "pre"]);
    const app = (await node.containers(uid)).find(({ metadata }) => metadata.name === "app");
    const stops = node.calls.filter(({ verb, args }) => verb === "stopContainer" && args[0] === app?.id);
    expect(stops).toHaveLength(1);
    expect((stops[0]?.atMs ?? 0) - (heard[1]?.atMs ?? 0)).toBeGreaterThanOrEqual(2 * SECONDS);
  },
);

test("[node-agent 98] a failing postStart hook kills its container, which is restarted", async () => {
  const node = await startedNode({ images: { "hooked:1": { exec: () => ({ exitCode: 1 }) } } });
  await node.create("p", { containers: [{ ...APP, image: "hooked:1", lifecycle: { postStart: { exec: { command: ["x"] } } } }] });
  await node.until("it was started again", () => (status(node, "p")?.restartCount ?? 0) >= 1);
});

test("[node-agent 99] a deleted pod is observed terminating before its object is deleted, and its containers end first", async () => {
  const node = await startedNode({ images: { "slow:1": { stopAfterMs: 4 * SECONDS } } });
  const uid = await node.create("p", { containers: [{ ...APP, image: "slow:1" }] });
  await node.until("ready", () => node.isReady("p"));
  await node.delete("p");
  await node.advance(3 * SECONDS);
  expect(node.pod("p")?.metadata.deletionTimestamp).toBeDefined();
  await node.until("gone", async () => {
    const isGone = node.pod("p") === undefined;
    if (isGone) expect(await node.running(uid)).toEqual([]);
    return isGone;
  });
  await node.advance(120 * SECONDS);
  expect(await node.containers(uid)).toEqual([]);
  expect(await node.files.logDirectories()).toEqual([]);
  expect(await node.files.podsWithDirectories()).toEqual([]);
});

test("[node-agent 100] passes new labels to the agent without restarts", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  await node.patch("p", { metadata: { labels: { time: "value" } } });
  await node.advance(5 * SECONDS);
  expect(node.agent.ports.pods.get(uid)?.metadata.labels).toEqual({ time: "value" });
  expect(await node.containers(uid)).toHaveLength(1);
});

test("[node-agent 100] terminates a running pod with DeadlineExceeded when an active deadline is set on it", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  await node.patch("p", { spec: { activeDeadlineSeconds: 5 } });
  await node.until("it failed", () => node.phase("p") === "Failed", 20 * SECONDS);
  expect(node.pod("p")?.status?.reason).toBe("DeadlineExceeded");
  expect(await node.running(uid)).toEqual([]);
});
