// Would catch: a node that runs out of resources without an Event, a node that evicts more pods than necessary or pods that it must keep,
// and an evicted pod whose status does not state the reason.
import { expect, test } from "vitest";
import { DEFAULT_EVICTION, parseStatements, parseThresholds } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { EvictionPolicy } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { VolumePlace } from "../../../../shared/node-agent/ports/node-files.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const GI = 2 ** 30;
const MI = 2 ** 20;
const APP = { name: "app", image: "app:1" };
const GONE = { kind: "Failed", reason: "Evicted" };

function policy(hard: string, more: Partial<EvictionPolicy> = {}): EvictionPolicy {
  return { ...DEFAULT_EVICTION, thresholds: parseThresholds({ hard: parseStatements(hard, "<") }), pressureTransitionMs: 30_000, ...more };
}
const MEMORY = policy("memory.available<1Gi");

/** Sets the amount of free memory. */
function leave(node: NodeHarness, bytes: number): void {
  node.usage = { ...node.usage, workingSetBytes: node.usage.memoryBytes - bytes };
}

async function running(node: NodeHarness, ...names: readonly string[]): Promise<void> {
  await node.until("all run", () => names.every((name) => node.isReady(name)));
}

function evicted(node: NodeHarness): readonly string[] {
  return node
    .pods()
    .filter(({ status }) => status?.phase === GONE.kind && status.reason === GONE.reason)
    .map(({ metadata }) => metadata.name)
    .toSorted();
}

function conditions(node: NodeHarness): readonly string[] {
  const stored = node.server.peek("nodes", "", "n1") as unknown as {
    readonly status: { readonly conditions: readonly { readonly type: string; readonly status: string }[] };
  }; // the agent's own Node
  return stored.status.conditions.flatMap(({ type, status }) => (type.endsWith("Pressure") && status === "True" ? type : []));
}

interface EventBody {
  readonly reason: string;
  readonly message: string;
  readonly metadata: { readonly annotations?: object };
}
function events(node: NodeHarness, reason: string): readonly EventBody[] {
  const sent = node.requests.flatMap(({ path, body }) => (path.endsWith("/events") && body !== undefined ? [body as EventBody] : [])); // Events
  return sent.filter((event) => event.reason === reason);
}

test("[node-agent 213] evicts the pods of the lowest priority one at a time when memory is low, until enough is free", async () => {
  const node = await startedNode({ eviction: MEMORY });
  await node.create("low", { containers: [APP], priority: 1 });
  await node.create("lower", { containers: [APP], priority: 0 });
  await node.create("high", { containers: [APP], priority: 9 });
  await running(node, "low", "lower", "high");
  leave(node, GI - 1);
  await node.until("the first is gone", () => evicted(node).length > 0);
  expect(evicted(node)).toEqual(["lower"]);
  await node.until("the second is gone", () => evicted(node).length > 1);
  leave(node, GI);
  await node.advance(60 * SECONDS);
  expect([evicted(node), node.isReady("high")]).toEqual([["low", "lower"], true]);
});

test("[node-agent 251] evicts a pod when the kubepods cgroup is near its memory limit, even if the node has free memory", async () => {
  const node = await startedNode({
    eviction: { ...MEMORY, thresholds: parseThresholds({ hard: parseStatements("memory.available<1Gi", "<"), enforcesPods: true }) },
  });
  await node.create("low", { containers: [APP], priority: 1 });
  await node.create("lower", { containers: [APP], priority: 0 });
  await running(node, "low", "lower");
  const limit = Number(node.cgroups.files("/kubepods")?.["memory.limit_in_bytes"]);
  expect(limit).toBeGreaterThan(2 * GI);
  node.cgroups.use("/kubepods/besteffort", limit - GI);
  await node.advance(20 * SECONDS);
  expect([evicted(node), conditions(node)]).toEqual([[], []]);
  node.cgroups.use("/kubepods/besteffort", limit - GI + MI);
  await node.until("one is gone", () => evicted(node).length > 0);
  node.cgroups.use("/kubepods/besteffort", 0);
  await node.until("it is said", () => conditions(node).length > 0, 25 * SECONDS);
  expect([evicted(node), conditions(node)]).toEqual([["lower"], ["MemoryPressure"]]);
  expect(node.pod("lower")?.status?.message).toBe("The node was low on resource: memory. Threshold quantity: 1Gi, available: 1023Mi. ");
});

test("[node-agent 251] a percentage refers to the limit of the kubepods cgroup", async () => {
  const thresholds = parseThresholds({ hard: parseStatements("memory.available<50%", "<"), enforcesPods: true });
  const node = await startedNode({ eviction: { ...MEMORY, thresholds } });
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  const limit = Number(node.cgroups.files("/kubepods")?.["memory.limit_in_bytes"]);
  node.cgroups.use("/kubepods/besteffort", limit / 2);
  await node.advance(20 * SECONDS);
  expect(evicted(node)).toEqual([]);
  node.cgroups.use("/kubepods/besteffort", limit / 2 + MI);
  await node.until("it is gone", () => evicted(node).length > 0);
});

test("[node-agent 251] omits the signal when the kubepods cgroup has no limit", async () => {
  const thresholds = parseThresholds({ hard: parseStatements("memory.available<1Gi", "<"), enforcesPods: true });
  const node = await startedNode({ eviction: { ...MEMORY, thresholds } });
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  await node.cgroups.write("/kubepods", [{ controller: "memory", name: "memory.limit_in_bytes", value: "-1" }]);
  node.cgroups.use("/kubepods/besteffort", 2 ** 50);
  await node.advance(30 * SECONDS);
  expect([evicted(node), conditions(node)]).toEqual([[], []]);
});

test("[node-agent 214] reports an eviction in status, condition and Events", async () => {
  const node = await startedNode({ eviction: MEMORY });
  const uid = await node.create("p", { containers: [APP] });
  await running(node, "p");
  leave(node, 512 * MI);
  await node.until("it is gone", () => evicted(node).length > 0);
  const message = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. ";
  const status = node.pod("p")?.status;
  expect(status).toMatchObject({ phase: "Failed", reason: "Evicted", message });
  expect(status?.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
    status: "True",
    reason: "TerminationByKubelet",
    message,
  });
  expect(events(node, "Evicted")).toMatchObject([
    { message, metadata: { annotations: { starved_resource: "memory", offending_containers: "", offending_containers_usage: "" } } },
  ]);
  expect(events(node, "EvictionThresholdMet")).toMatchObject([{ message: "Attempting to reclaim memory" }]);
  expect(await node.running(uid)).toEqual([]);
});

test("[node-agent 215] the node reports pressure until the transition period has passed", async () => {
  const node = await startedNode({ eviction: MEMORY });
  leave(node, GI - 1);
  await node.until("it is said", () => conditions(node).length > 0, 25 * SECONDS);
  expect(conditions(node)).toEqual(["MemoryPressure"]);
  leave(node, 2 * GI);
  await node.advance(20 * SECONDS);
  expect(conditions(node)).toEqual(["MemoryPressure"]);
  await node.until("it is said no more", () => conditions(node).length === 0, 40 * SECONDS);
  expect(events(node, "NodeHasInsufficientMemory")).toMatchObject([{ message: "Node n1 status is now: NodeHasInsufficientMemory" }]);
  expect(events(node, "NodeHasSufficientMemory")).toHaveLength(1);
});

test("[node-agent 216] rejects a BestEffort pod under memory pressure, and admits others", async () => {
  const node = await startedNode({ eviction: MEMORY });
  leave(node, GI - 1);
  await node.advance(15 * SECONDS);
  leave(node, 2 * GI);
  await node.create("nothing", { containers: [APP] });
  await node.create("something", { containers: [{ ...APP, resources: { requests: { memory: "1Mi" } } }] });
  await running(node, "something");
  expect(node.pod("nothing")?.status).toMatchObject({
    phase: "Failed",
    reason: "Evicted",
    message: "Pod was rejected: The node had condition: [MemoryPressure]. ",
  });
});

test("[node-agent 217] never evicts critical or static pods", async () => {
  const node = await startedNode({ eviction: MEMORY, manifests: true });
  node.setManifest("s", { name: "static", spec: { containers: [APP] } });
  await node.create("critical", { containers: [APP], priority: 2_000_000_000 });
  await node.until("both run", () => node.isReady("critical") && node.isReady("static-n1"));
  leave(node, 1);
  await node.advance(90 * SECONDS);
  expect([evicted(node), node.isReady("critical"), node.isReady("static-n1")]).toEqual([[], true, true]);
});

test("[node-agent 218] evicts the next pod only after the previous one is cleaned up", async () => {
  const node = await startedNode({ eviction: MEMORY });
  await node.create("a", { containers: [APP], priority: 0 });
  await node.create("b", { containers: [APP], priority: 1 });
  await running(node, "a", "b");
  let isHeld = true;
  node.fateOf = ({ verb }) => (verb === "removePodDirectory" && isHeld ? { fail: new Error("busy") } : "live");
  leave(node, 1);
  await node.until("a is gone", () => evicted(node).length > 0);
  await node.advance(25 * SECONDS);
  expect(evicted(node)).toEqual(["a"]);
  isHeld = false;
  await node.until("b is gone", () => evicted(node).length > 1, 30 * SECONDS);
});

test("[node-agent 218] a pod whose clean-up never ends does not block further evictions", async () => {
  const node = await startedNode({ eviction: MEMORY });
  await node.create("a", { containers: [APP], priority: 0 });
  await node.create("b", { containers: [APP], priority: 1 });
  await running(node, "a", "b");
  node.fateOf = ({ verb }) => (verb === "removePodDirectory" ? { fail: new Error("busy") } : "live");
  leave(node, 1);
  await node.until("b is gone", () => evicted(node).includes("b"), 90 * SECONDS);
});

test("[node-agent 219] removes unused images first when the disk is full, and evicts no pod if that suffices", async () => {
  const node = await startedNode({ eviction: policy("nodefs.available<10%"), images: { "old:1": {} } });
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  await node.advance(180 * SECONDS); // images are old enough
  const full = { availableBytes: 2 ** 36 };
  node.files.setSpace(full);
  node.fateOf = ({ verb }) => {
    if (verb === "removeImage") node.files.setSpace({});
    return "live";
  };
  await node.until("the image is gone", async () => !(await node.cri.listImages()).some(({ repoTags }) => repoTags.join().includes("old")));
  await node.advance(30 * SECONDS);
  expect([evicted(node), node.isReady("p")]).toEqual([[], true]);
  node.files.setSpace(full);
  node.fateOf = () => "live";
  await node.until("the pod is gone", () => evicted(node).length > 0);
});

test("[node-agent 219] evicts the next pod for a full image disk only after the runtime has measured again", async () => {
  const node = await startedNode({ eviction: policy("imagefs.available<10%") });
  await node.create("a", { containers: [APP], priority: 0 });
  await node.create("b", { containers: [APP], priority: 1 });
  await running(node, "a", "b");
  node.files.setSpace({ availableBytes: 2 ** 36 });
  await node.until("the first is gone", () => evicted(node).length > 0);
  await node.advance(4 * SECONDS);
  node.files.setSpace({});
  await node.advance(60 * SECONDS);
  expect([evicted(node), node.isReady("b")]).toEqual([["a"], true]);
});

test("[node-agent 220] evicts all pods above their own disk limits in one round, without a DisruptionTarget condition", async () => {
  const node = await startedNode({ eviction: policy("") });
  const volumes = [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }];
  const uids = [await node.create("a", { containers: [APP], volumes }), await node.create("b", { containers: [APP], volumes })];
  await node.create("c", { containers: [APP], volumes });
  await running(node, "a", "b", "c");
  for (const uid of uids) node.files.setUsage(uid, { volumes: new Map([["scratch", { usedBytes: MI + 1, inodesUsed: 1 }]]) });
  await node.until("they are gone", () => evicted(node).length > 1);
  const status = node.pod("a")?.status;
  expect([evicted(node), status?.message]).toEqual([["a", "b"], 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". ']);
  expect(status?.conditions?.map(({ type }) => type)).not.toContain("DisruptionTarget");
});

test("[node-agent 493] a volume whose measurement never ends prevents neither evictions for memory nor those for the pod's own limit", async () => {
  const node = await startedNode({ eviction: MEMORY });
  const volumes = [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }];
  const [endless, greedy] = [await node.create("endless", { containers: [APP], volumes, priority: 9 }), "greedy"];
  const uid = await node.create(greedy, { containers: [APP], volumes, priority: 9 });
  await node.create("low", { containers: [APP], priority: 0 });
  node.fateOf = ({ verb, args: [place] }) =>
    verb === "volumeUsage" && (place as VolumePlace).uid === endless ? { after: new Promise(() => undefined) } : "live";
  await running(node, "endless", greedy, "low");
  leave(node, GI - 1);
  await node.until("one is gone", () => evicted(node).length > 0, 30 * SECONDS);
  leave(node, GI);
  node.files.setUsage(uid, { volumes: new Map([["scratch", { usedBytes: MI + 1, inodesUsed: 1 }]]) });
  await node.until("the other is gone", () => evicted(node).length > 1, 60 * SECONDS);
  expect([evicted(node), node.isReady("endless")]).toEqual([["greedy", "low"], true]);
});

test("[node-agent 221] evicts after the grace period of a soft threshold, with the limited pod grace period", async () => {
  const thresholds = parseThresholds({
    hard: new Map(),
    soft: new Map([["memory.available", "1Gi"]]),
    softGracePeriods: new Map([["memory.available", "40s"]]),
  });
  const node = await startedNode({ eviction: { ...MEMORY, thresholds, maxPodGracePeriodSeconds: 7 } });
  await node.create("p", { containers: [APP] });
  await running(node, "p");
  leave(node, 1);
  await node.advance(35 * SECONDS);
  expect(evicted(node)).toEqual([]);
  await node.until("it is gone", () => evicted(node).length > 0, 30 * SECONDS);
  expect(node.calls.filter(({ verb }) => verb === "stopContainer").map(({ args }) => args[1])).toEqual([7]);
});

test("[node-agent 219] also removes the last dead container of terminated pods, and keeps recent images", async () => {
  const node = await startedNode({ eviction: policy("nodefs.available<10%"), images: { "once:1": { exitAfterMs: SECONDS }, "old:1": {} } });
  const uid = await node.create("once", { containers: [{ name: "once", image: "once:1" }], restartPolicy: "Never" });
  await node.until("it has ended", () => node.phase("once") !== "Pending" && node.phase("once") !== "Running");
  expect(await node.containers(uid)).toHaveLength(1);
  node.files.setSpace({ availableBytes: 2 ** 36 });
  await node.advance(20 * SECONDS);
  expect([await node.containers(uid), (await node.cri.listImages()).length]).toEqual([[], 3]);
});

test("[node-agent 507] measures only pods with disk limits, and all pods while the node is low on disk", async () => {
  const node = await startedNode({ eviction: MEMORY });
  const asked: string[] = [];
  node.fateOf = ({ verb, args: [uid] }) => {
    if (verb === "listContainerStats") asked.push("containers");
    if (verb === "podDiskUsage") asked.push(String(uid));
    return "live";
  };
  const round = async (): Promise<readonly string[]> => {
    asked.length = 0;
    await node.advance(10 * SECONDS);
    return [...new Set(asked)].toSorted();
  };
  const free = await node.create("free", { containers: [APP] });
  await running(node, "free");
  expect(await round()).toEqual([]);
  const limited = await node.create("limited", { containers: [{ ...APP, resources: { limits: { "ephemeral-storage": "1Gi" } } }] });
  await running(node, "limited");
  expect(await round()).toEqual([limited, "containers"].toSorted());
  leave(node, GI - 1);
  expect(await round()).toEqual([free, limited, "containers"].toSorted());
});
