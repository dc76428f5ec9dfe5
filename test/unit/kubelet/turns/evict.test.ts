// Would catch: a node that runs full without a word, one that throws out more than it must or what it must keep, a pod that goes
// without its owner hearing why.
import { expect, test } from "vitest";
import { DEFAULT_EVICTION, parseStatements, parseThresholds } from "../../../../shared/kubelet/eviction/thresholds.ts";
import type { EvictionPolicy } from "../../../../shared/kubelet/eviction/thresholds.ts";
import type { VolumePlace } from "../../../../shared/ports/node-files.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const GI = 2 ** 30;
const MI = 2 ** 20;
const APP = { name: "app", image: "app:1" };
const GONE = { kind: "Failed", reason: "Evicted" };

function policy(hard: string, more: Partial<EvictionPolicy> = {}): EvictionPolicy {
  return { ...DEFAULT_EVICTION, thresholds: parseThresholds({ hard: parseStatements(hard, "<") }), pressureTransitionMs: 30_000, ...more };
}
const MEMORY = policy("memory.available<1Gi");

/** So much memory is free from now on. */
function leave(rig: NodeRig, bytes: number): void {
  rig.usage = { ...rig.usage, workingSetBytes: rig.usage.memoryBytes - bytes };
}

async function running(rig: NodeRig, ...names: readonly string[]): Promise<void> {
  await rig.until("all run", () => names.every((name) => rig.isReady(name)));
}

function evicted(rig: NodeRig): readonly string[] {
  return rig
    .pods()
    .filter(({ status }) => status?.phase === GONE.kind && status.reason === GONE.reason)
    .map(({ metadata }) => metadata.name)
    .toSorted();
}

function conditions(rig: NodeRig): readonly string[] {
  const node = rig.server.peek("nodes", "", "n1") as unknown as {
    readonly status: { readonly conditions: readonly { readonly type: string; readonly status: string }[] };
  }; // the agent's own Node
  return node.status.conditions.flatMap(({ type, status }) => (type.endsWith("Pressure") && status === "True" ? type : []));
}

interface EventBody {
  readonly reason: string;
  readonly message: string;
  readonly metadata: { readonly annotations?: object };
}
function events(rig: NodeRig, reason: string): readonly EventBody[] {
  const sent = rig.requests.flatMap(({ path, body }) => (path.endsWith("/events") && body !== undefined ? [body as EventBody] : [])); // Events
  return sent.filter((event) => event.reason === reason);
}

test("[node-agent 213] memory runs short: the pod of the lowest priority goes, one at a time, until there is enough", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  await rig.create("low", { containers: [APP], priority: 1 });
  await rig.create("lower", { containers: [APP], priority: 0 });
  await rig.create("high", { containers: [APP], priority: 9 });
  await running(rig, "low", "lower", "high");
  leave(rig, GI - 1);
  await rig.until("the first is gone", () => evicted(rig).length > 0);
  expect(evicted(rig)).toEqual(["lower"]);
  await rig.until("the second is gone", () => evicted(rig).length > 1);
  leave(rig, GI);
  await rig.advance(60 * SECONDS);
  expect([evicted(rig), rig.isReady("high")]).toEqual([["low", "lower"], true]);
});

test("[node-agent 251] all pods together take almost what they may, with room on the node: one goes, as for the node's memory", async () => {
  const rig = await startedNode({
    eviction: { ...MEMORY, thresholds: parseThresholds({ hard: parseStatements("memory.available<1Gi", "<"), enforcesPods: true }) },
  });
  await rig.create("low", { containers: [APP], priority: 1 });
  await rig.create("lower", { containers: [APP], priority: 0 });
  await running(rig, "low", "lower");
  const limit = Number(rig.cgroups.files("/kubepods")?.["memory.limit_in_bytes"]);
  expect(limit).toBeGreaterThan(2 * GI);
  rig.cgroups.use("/kubepods/besteffort", limit - GI);
  await rig.advance(20 * SECONDS);
  expect([evicted(rig), conditions(rig)]).toEqual([[], []]);
  rig.cgroups.use("/kubepods/besteffort", limit - GI + MI);
  await rig.until("one is gone", () => evicted(rig).length > 0);
  rig.cgroups.use("/kubepods/besteffort", 0);
  await rig.until("it is said", () => conditions(rig).length > 0, 25 * SECONDS);
  expect([evicted(rig), conditions(rig)]).toEqual([["lower"], ["MemoryPressure"]]);
  expect(rig.pod("lower")?.status?.message).toBe("The node was low on resource: memory. Threshold quantity: 1Gi, available: 1023Mi. ");
});

test("[node-agent 251] a share is one of what all pods may take", async () => {
  const thresholds = parseThresholds({ hard: parseStatements("memory.available<50%", "<"), enforcesPods: true });
  const rig = await startedNode({ eviction: { ...MEMORY, thresholds } });
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  const limit = Number(rig.cgroups.files("/kubepods")?.["memory.limit_in_bytes"]);
  rig.cgroups.use("/kubepods/besteffort", limit / 2);
  await rig.advance(20 * SECONDS);
  expect(evicted(rig)).toEqual([]);
  rig.cgroups.use("/kubepods/besteffort", limit / 2 + MI);
  await rig.until("it is gone", () => evicted(rig).length > 0);
});

test("[node-agent 251] without a limit of all pods nothing is known of it", async () => {
  const thresholds = parseThresholds({ hard: parseStatements("memory.available<1Gi", "<"), enforcesPods: true });
  const rig = await startedNode({ eviction: { ...MEMORY, thresholds } });
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  await rig.cgroups.write("/kubepods", [{ controller: "memory", name: "memory.limit_in_bytes", value: "-1" }]);
  rig.cgroups.use("/kubepods/besteffort", 2 ** 50);
  await rig.advance(30 * SECONDS);
  expect([evicted(rig), conditions(rig)]).toEqual([[], []]);
});

test("[node-agent 214] what an evicted pod's owner is told", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  const uid = await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  leave(rig, 512 * MI);
  await rig.until("it is gone", () => evicted(rig).length > 0);
  const message = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. ";
  const status = rig.pod("p")?.status;
  expect(status).toMatchObject({ phase: "Failed", reason: "Evicted", message });
  expect(status?.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
    status: "True",
    reason: "TerminationByKubelet",
    message,
  });
  expect(events(rig, "Evicted")).toMatchObject([
    { message, metadata: { annotations: { starved_resource: "memory", offending_containers: "", offending_containers_usage: "" } } },
  ]);
  expect(events(rig, "EvictionThresholdMet")).toMatchObject([{ message: "Attempting to reclaim memory" }]);
  expect(await rig.running(uid)).toEqual([]);
});

test("[node-agent 215] the node says that it runs short, and for the transition period after", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  leave(rig, GI - 1);
  await rig.until("it is said", () => conditions(rig).length > 0, 25 * SECONDS);
  expect(conditions(rig)).toEqual(["MemoryPressure"]);
  leave(rig, 2 * GI);
  await rig.advance(20 * SECONDS);
  expect(conditions(rig)).toEqual(["MemoryPressure"]);
  await rig.until("it is said no more", () => conditions(rig).length === 0, 40 * SECONDS);
  expect(events(rig, "NodeHasInsufficientMemory")).toMatchObject([{ message: "Node n1 status is now: NodeHasInsufficientMemory" }]);
  expect(events(rig, "NodeHasSufficientMemory")).toHaveLength(1);
});

test("[node-agent 216] under memory pressure a pod that asks for nothing is turned away, one that asks for something is not", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  leave(rig, GI - 1);
  await rig.advance(15 * SECONDS);
  leave(rig, 2 * GI);
  await rig.create("nothing", { containers: [APP] });
  await rig.create("something", { containers: [{ ...APP, resources: { requests: { memory: "1Mi" } } }] });
  await running(rig, "something");
  expect(rig.pod("nothing")?.status).toMatchObject({
    phase: "Failed",
    reason: "Evicted",
    message: "Pod was rejected: The node had condition: [MemoryPressure]. ",
  });
});

test("[node-agent 217] critical and static pods stay, whatever runs short", async () => {
  const rig = await startedNode({ eviction: MEMORY, manifests: true });
  rig.setManifest("s", { name: "static", spec: { containers: [APP] } });
  await rig.create("critical", { containers: [APP], priority: 2_000_000_000 });
  await rig.until("both run", () => rig.isReady("critical") && rig.isReady("static-n1"));
  leave(rig, 1);
  await rig.advance(90 * SECONDS);
  expect([evicted(rig), rig.isReady("critical"), rig.isReady("static-n1")]).toEqual([[], true, true]);
});

test("[node-agent 218] the next pod goes only when the one before has been cleaned up", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  await rig.create("a", { containers: [APP], priority: 0 });
  await rig.create("b", { containers: [APP], priority: 1 });
  await running(rig, "a", "b");
  let isHeld = true;
  rig.fateOf = ({ verb }) => (verb === "removePodDirectory" && isHeld ? { fail: new Error("busy") } : "live");
  leave(rig, 1);
  await rig.until("a is gone", () => evicted(rig).length > 0);
  await rig.advance(25 * SECONDS);
  expect(evicted(rig)).toEqual(["a"]);
  isHeld = false;
  await rig.until("b is gone", () => evicted(rig).length > 1, 30 * SECONDS);
});

test("[node-agent 218] one that is never cleaned up does not keep the others", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  await rig.create("a", { containers: [APP], priority: 0 });
  await rig.create("b", { containers: [APP], priority: 1 });
  await running(rig, "a", "b");
  rig.fateOf = ({ verb }) => (verb === "removePodDirectory" ? { fail: new Error("busy") } : "live");
  leave(rig, 1);
  await rig.until("b is gone", () => evicted(rig).includes("b"), 90 * SECONDS);
});

test("[node-agent 219] a full disk: unused images and dead containers go first, and no pod where that is enough", async () => {
  const rig = await startedNode({ eviction: policy("nodefs.available<10%"), images: { "old:1": {} } });
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  await rig.advance(180 * SECONDS); // images are old enough
  const full = { availableBytes: 2 ** 36 };
  rig.files.setSpace(full);
  rig.fateOf = ({ verb }) => {
    if (verb === "removeImage") rig.files.setSpace({});
    return "live";
  };
  await rig.until("the image is gone", async () => !(await rig.cri.listImages()).some(({ repoTags }) => repoTags.join().includes("old")));
  await rig.advance(30 * SECONDS);
  expect([evicted(rig), rig.isReady("p")]).toEqual([[], true]);
  rig.files.setSpace(full);
  rig.fateOf = () => "live";
  await rig.until("the pod is gone", () => evicted(rig).length > 0);
});

test("[node-agent 219] the images' disk: no other pod goes before the runtime has looked again at what the last one left", async () => {
  const rig = await startedNode({ eviction: policy("imagefs.available<10%") });
  await rig.create("a", { containers: [APP], priority: 0 });
  await rig.create("b", { containers: [APP], priority: 1 });
  await running(rig, "a", "b");
  rig.files.setSpace({ availableBytes: 2 ** 36 });
  await rig.until("the first is gone", () => evicted(rig).length > 0);
  await rig.advance(4 * SECONDS);
  rig.files.setSpace({});
  await rig.advance(60 * SECONDS);
  expect([evicted(rig), rig.isReady("b")]).toEqual([["a"], true]);
});

test("[node-agent 220] pods that take more of the disk than they may go all at once, and are no disruption", async () => {
  const rig = await startedNode({ eviction: policy("") });
  const volumes = [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }];
  const uids = [await rig.create("a", { containers: [APP], volumes }), await rig.create("b", { containers: [APP], volumes })];
  await rig.create("c", { containers: [APP], volumes });
  await running(rig, "a", "b", "c");
  for (const uid of uids) rig.files.setUsage(uid, { volumes: new Map([["scratch", { usedBytes: MI + 1, inodesUsed: 1 }]]) });
  await rig.until("they are gone", () => evicted(rig).length > 1);
  const status = rig.pod("a")?.status;
  expect([evicted(rig), status?.message]).toEqual([["a", "b"], 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". ']);
  expect(status?.conditions?.map(({ type }) => type)).not.toContain("DisruptionTarget");
});

test("[node-agent 493] a volume that takes for ever to measure keeps no pod from being evicted, for want of memory or by its own limit", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  const volumes = [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }];
  const [endless, greedy] = [await rig.create("endless", { containers: [APP], volumes, priority: 9 }), "greedy"];
  const uid = await rig.create(greedy, { containers: [APP], volumes, priority: 9 });
  await rig.create("low", { containers: [APP], priority: 0 });
  rig.fateOf = ({ verb, args: [place] }) =>
    verb === "volumeUsage" && (place as VolumePlace).uid === endless ? { after: new Promise(() => undefined) } : "live";
  await running(rig, "endless", greedy, "low");
  leave(rig, GI - 1);
  await rig.until("one is gone", () => evicted(rig).length > 0, 30 * SECONDS);
  leave(rig, GI);
  rig.files.setUsage(uid, { volumes: new Map([["scratch", { usedBytes: MI + 1, inodesUsed: 1 }]]) });
  await rig.until("the other is gone", () => evicted(rig).length > 1, 60 * SECONDS);
  expect([evicted(rig), rig.isReady("endless")]).toEqual([["greedy", "low"], true]);
});

test("[node-agent 221] a soft threshold: nothing goes before its time, then with the grace that is left to a pod", async () => {
  const thresholds = parseThresholds({
    hard: new Map(),
    soft: new Map([["memory.available", "1Gi"]]),
    softGracePeriods: new Map([["memory.available", "40s"]]),
  });
  const rig = await startedNode({ eviction: { ...MEMORY, thresholds, maxPodGracePeriodSeconds: 7 } });
  await rig.create("p", { containers: [APP] });
  await running(rig, "p");
  leave(rig, 1);
  await rig.advance(35 * SECONDS);
  expect(evicted(rig)).toEqual([]);
  await rig.until("it is gone", () => evicted(rig).length > 0, 30 * SECONDS);
  expect(rig.calls.filter(({ verb }) => verb === "stopContainer").map(({ args }) => args[1])).toEqual([7]);
});

test("[node-agent 219] of pods that have ended the last dead container goes, too, and images that are young do not", async () => {
  const rig = await startedNode({ eviction: policy("nodefs.available<10%"), images: { "once:1": { exitAfterMs: SECONDS }, "old:1": {} } });
  const uid = await rig.create("once", { containers: [{ name: "once", image: "once:1" }], restartPolicy: "Never" });
  await rig.until("it has ended", () => rig.phase("once") !== "Pending" && rig.phase("once") !== "Running");
  expect(await rig.containers(uid)).toHaveLength(1);
  rig.files.setSpace({ availableBytes: 2 ** 36 });
  await rig.advance(20 * SECONDS);
  expect([await rig.containers(uid), (await rig.cri.listImages()).length]).toEqual([[], 3]);
});

test("[node-agent 507] who uses what is asked of pods that may take only so much of the disk; of all once the node runs short", async () => {
  const rig = await startedNode({ eviction: MEMORY });
  const asked: string[] = [];
  rig.fateOf = ({ verb, args: [uid] }) => {
    if (verb === "listContainerStats") asked.push("containers");
    if (verb === "podDiskUsage") asked.push(String(uid));
    return "live";
  };
  const round = async (): Promise<readonly string[]> => {
    asked.length = 0;
    await rig.advance(10 * SECONDS);
    return [...new Set(asked)].toSorted();
  };
  const free = await rig.create("free", { containers: [APP] });
  await running(rig, "free");
  expect(await round()).toEqual([]);
  const limited = await rig.create("limited", { containers: [{ ...APP, resources: { limits: { "ephemeral-storage": "1Gi" } } }] });
  await running(rig, "limited");
  expect(await round()).toEqual([limited, "containers"].toSorted());
  leave(rig, GI - 1);
  expect(await round()).toEqual([free, limited, "containers"].toSorted());
});
