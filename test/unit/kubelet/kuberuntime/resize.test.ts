// Would catch: a resize that needlessly restarts a container, resources that are given out twice, a resize that waits forever, and an
// allocation that is lost when the agent restarts.
import { expect, test } from "vitest";
import type { ContainerSpec, ContainerStatusEntry, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { allocatedPodOf } from "../../../../shared/node-agent/kubelet/allocation/allocation-manager.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness, NodeHarnessOptions } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const MB = 2 ** 20;
const FILE = "/root/deltaloop-allocations.json";

type Resources = NonNullable<ContainerSpec["resources"]>;
const both = (cpu: string, memory: string): Resources => ({ requests: { cpu, memory }, limits: { cpu, memory } });
const cpuOf = (cpu: string): Resources => ({ requests: { cpu } });
const app = (resources: Resources, fields: Partial<ContainerSpec> = {}): ContainerSpec => ({
  name: "app",
  image: "app:1",
  resources,
  ...fields,
});

async function started(resources: Resources, fields: Partial<ContainerSpec> = {}, options: NodeHarnessOptions = {}) {
  const node = await startedNode(options);
  const uid = await node.create("p", { containers: [app(resources, fields)] });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(2 * SECONDS);
  return { node, uid };
}

async function resize(node: NodeHarness, resources: Resources, name = "p"): Promise<void> {
  await node.patch(name, { spec: { containers: [{ name: "app", resources }] } }, "/resize");
}

/** Returns the sent Events of resizes. */
function events(node: NodeHarness): readonly string[] {
  return node.requests
    .filter(({ path }) => path.endsWith("/events"))
    .map(({ body }) => String((body as { readonly reason?: string } | undefined)?.reason)) // an Event
    .filter((reason) => reason.startsWith("Resize"));
}

const statusOf = (node: NodeHarness, name = "p"): ContainerStatusEntry | undefined => node.pod(name)?.status?.containerStatuses?.[0];
const conditions = ({ status }: NodePod): readonly string[] =>
  (status?.conditions ?? []).filter(({ type }) => type.startsWith("PodResize")).map(({ type, reason = "" }) => `${type} ${reason}`.trim());
const conditionsOf = (node: NodeHarness, name = "p"): readonly string[] => {
  const pod = node.pod(name);
  return pod === undefined ? [] : conditions(pod);
};
const updates = (node: NodeHarness) => node.calls.filter(({ verb }) => verb === "updateContainerResources").map(({ args }) => args[1]);
const has = (node: NodeHarness, resources: Resources) => () =>
  JSON.stringify(statusOf(node)?.resources) === JSON.stringify(statusOf(node) && sorted(resources));
const sorted = ({ limits, requests }: Resources): Resources => ({ ...(limits && { limits }), ...(requests && { requests }) });

test("[node-agent 167] applies a resize in place, memory before CPU, and reports it", async () => {
  const { node, uid } = await started(both("100m", "64Mi"));
  expect(statusOf(node)).toMatchObject({ allocatedResources: { cpu: "100m", memory: "64Mi" }, resources: both("100m", "64Mi") });
  const id = statusOf(node)?.containerID;
  await resize(node, both("200m", "128Mi"));
  await node.until("it has it", has(node, both("200m", "128Mi")), 10 * SECONDS);
  expect(updates(node)).toMatchObject([
    { memoryLimitInBytes: 128 * MB, cpuQuota: 10_000, cpuShares: 102 },
    { memoryLimitInBytes: 128 * MB, cpuQuota: 20_000, cpuShares: 204 },
  ]);
  expect(statusOf(node)).toMatchObject({ containerID: id, restartCount: 0, allocatedResources: { cpu: "200m", memory: "128Mi" } });
  expect((await node.containers(uid))[0]?.resources).toMatchObject({ cpuQuota: 20_000, memoryLimitInBytes: 128 * MB });
  await node.advance(2 * SECONDS);
  expect(conditionsOf(node)).toEqual([]);
  expect(events(node)).toEqual(["ResizeStarted", "ResizeCompleted"]);
  await node.advance(120 * SECONDS);
  expect(updates(node).length).toBe(2);
});

test("[node-agent 168] restarts the container once with all new resources if its policy requires it", async () => {
  const resizePolicy = [{ resourceName: "memory", restartPolicy: "RestartContainer" }];
  const { node, uid } = await started(both("100m", "64Mi"), { resizePolicy });
  await resize(node, both("200m", "128Mi"));
  await node.until("it runs with it", () => statusOf(node)?.restartCount === 1 && node.isReady("p"), 20 * SECONDS);
  expect((await node.containers(uid)).at(-1)?.resources).toMatchObject({ cpuQuota: 20_000, memoryLimitInBytes: 128 * MB });
  await node.advance(90 * SECONDS);
  expect(statusOf(node)).toMatchObject({ restartCount: 1, resources: both("200m", "128Mi") });
  expect([updates(node), conditionsOf(node)]).toEqual([[], []]);
});

test("[node-agent 169] [node-agent 175] defers a resize while the node lacks free resources, and grants it later", async () => {
  const { node } = await started(cpuOf("10"));
  await node.create("big", { containers: [app(cpuOf("50"))] });
  await node.until("it runs", () => node.isReady("big"));
  await resize(node, cpuOf("20"));
  await node.until("it waits", () => conditionsOf(node).includes("PodResizePending Deferred"), 10 * SECONDS);
  expect(statusOf(node)).toMatchObject({ allocatedResources: { cpu: "10" }, resources: cpuOf("10") });
  await node.create("small", { containers: [app(cpuOf("4"))] }); // 10 + 50 + 4: pending requests do not count
  await node.until("it has the room that is left", () => node.isReady("small"));
  await node.advance(70 * SECONDS);
  expect(events(node)).toEqual(["ResizeDeferred"]);
  await node.delete("big", 1);
  await node.until("it has it", has(node, cpuOf("20")), 20 * SECONDS);
  await node.advance(2 * SECONDS);
  expect(events(node)).toEqual(["ResizeDeferred", "ResizeStarted", "ResizeCompleted"]);
  expect([conditionsOf(node), statusOf(node)?.restartCount]).toEqual([[], 0]);
});

test("[node-agent 169] grants a deferred resize after another pod has shrunk", async () => {
  const { node } = await started(cpuOf("10"));
  await node.create("q", { containers: [app(cpuOf("50"))] });
  await node.until("it runs", () => node.isReady("q"));
  await resize(node, cpuOf("30"));
  await node.until("it waits", () => conditionsOf(node).includes("PodResizePending Deferred"), 10 * SECONDS);
  await resize(node, cpuOf("30"), "q");
  await node.until("it has it", has(node, cpuOf("30")), 10 * SECONDS);
});

test("[node-agent 165] reports a resize above the node's capacity as infeasible, and clears the condition when the resize is withdrawn", async () => {
  const { node } = await started(cpuOf("10"));
  await resize(node, cpuOf("100"));
  await node.until("it is said", () => conditionsOf(node).includes("PodResizePending Infeasible"), 10 * SECONDS);
  await node.advance(65 * SECONDS);
  expect(events(node)).toEqual(["ResizeInfeasible"]);
  await resize(node, cpuOf("10"));
  await node.until("it is said no more", () => conditionsOf(node).length === 0, 10 * SECONDS);
  expect(updates(node)).toEqual([]);
});

test("[node-agent 170] does not set a memory limit below the usage, but sets a later one above it", async () => {
  const { node } = await started(both("100m", "64Mi"), { image: "fat:1" }, { images: { "fat:1": { memoryBytes: 40 * MB } } });
  await resize(node, both("100m", "32Mi"));
  await node.until("it is said", () => conditionsOf(node).includes("PodResizeInProgress Error"), 20 * SECONDS);
  const told = node.pod("p")?.status?.conditions?.find(({ type }) => type === "PodResizeInProgress")?.message;
  expect(told).toBe(
    `cannot decrease memory limits: attempting to set container "app" memory limit (${32 * MB}) below current usage (${40 * MB})`,
  );
  expect(statusOf(node)).toMatchObject({ allocatedResources: { memory: "32Mi" }, resources: both("100m", "64Mi"), restartCount: 0 });
  await node.advance(60 * SECONDS);
  expect([events(node), updates(node)]).toEqual([["ResizeStarted", "ResizeError"], []]);
  await resize(node, both("100m", "48Mi"));
  await node.until("it has it", has(node, both("100m", "48Mi")), 20 * SECONDS);
  await node.advance(2 * SECONDS);
  expect(conditionsOf(node)).toEqual([]);
});

test("[node-agent 167] reports a failed resize call and retries it", async () => {
  const { node } = await started(both("100m", "64Mi"));
  let fails = true;
  node.fateOf = ({ verb }) => (verb === "updateContainerResources" && fails ? { fail: new Error("busy") } : "live");
  await resize(node, both("200m", "64Mi"));
  await node.until("it is said", () => conditionsOf(node).includes("PodResizeInProgress Error"), 20 * SECONDS);
  fails = false;
  await node.until("it has it", has(node, both("200m", "64Mi")), 30 * SECONDS);
  await node.advance(2 * SECONDS);
  expect(conditionsOf(node)).toEqual([]);
});

test("[node-agent 171] keeps the allocation of a pending resize across an agent restart", async () => {
  const node = await startedNode();
  await node.create("big", { containers: [app(cpuOf("50"))] });
  await node.advance(2 * SECONDS);
  await node.create("p", { containers: [app(cpuOf("10"))] }); // admitted after it
  await node.until("they run", () => node.isReady("big") && node.isReady("p"));
  await resize(node, cpuOf("20"));
  await node.until("it waits", () => conditionsOf(node).includes("PodResizePending Deferred"), 10 * SECONDS);
  const since = node.pod("p")?.status?.conditions?.find(({ type }) => type === "PodResizePending")?.lastTransitionTime;
  node.start();
  await node.advance(60 * SECONDS);
  expect([node.phase("p"), node.phase("big")]).toEqual(["Running", "Running"]);
  expect(statusOf(node)).toMatchObject({ allocatedResources: { cpu: "10" }, restartCount: 0 });
  expect(node.pod("p")?.status?.conditions?.find(({ type }) => type === "PodResizePending")?.lastTransitionTime).toBe(since);
  expect(events(node)).toEqual(["ResizeDeferred"]);
});

test("[node-agent 171] applies a resize that was requested while the agent was down", async () => {
  const { node } = await started(both("100m", "64Mi"), { resizePolicy: [{ resourceName: "cpu", restartPolicy: "NotRequired" }] });
  node.kill();
  await resize(node, both("200m", "64Mi"));
  node.start();
  await node.until("it has it", has(node, both("200m", "64Mi")), 10 * SECONDS);
  expect(updates(node).length).toBe(1);
});

test.each(["", '{"data":"{}","checksum":1}'])("[node-agent 171] treats a checkpoint file containing %j as absent", async (text) => {
  const { node } = await started(both("100m", "64Mi"));
  node.kill();
  node.files.write(FILE, text);
  node.start();
  await node.advance(10 * SECONDS);
  expect(node.isReady("p")).toBe(true);
  expect(statusOf(node)?.restartCount).toBe(0);
});

test("[node-agent 173] sets the resources of a container from an earlier agent once, without a restart, condition or Event", async () => {
  const resizePolicy = ["cpu", "memory"].map((resourceName) => ({ resourceName, restartPolicy: "RestartContainer" }));
  const { node } = await started(both("100m", "64Mi"), { resizePolicy });
  const id = statusOf(node)?.containerID;
  node.kill();
  node.files.write(FILE, '{"version":1,"pods":{}}');
  node.start();
  await node.advance(90 * SECONDS);
  expect(statusOf(node)).toMatchObject({ containerID: id, restartCount: 0 });
  expect(updates(node)).toMatchObject([{ memoryLimitInBytes: 64 * MB }, { cpuQuota: 10_000 }]);
  expect([events(node), conditionsOf(node)]).toEqual([[], []]);
});

test.each(["dieBefore", "dieAfter"] as const)(
  "[node-agent 172] the next agent completes a resize after its predecessor was killed (%s) at any call",
  async (fate) => {
    for (let at = 0, died = true; died; at++) {
      const { node } = await started(both("100m", "64Mi"));
      const id = statusOf(node)?.containerID;
      let calls = 0;
      died = false;
      node.fateOf = ({ verb }) => {
        if (died || !["updateContainerResources", "writeCheckpoint"].includes(verb) || calls++ !== at) return "live";
        died = true;
        return fate;
      };
      await resize(node, both("200m", "128Mi"));
      await node.advance(3 * SECONDS);
      if (died) node.start();
      await node.until("it has it", has(node, both("200m", "128Mi")), 30 * SECONDS);
      await node.advance(3 * SECONDS);
      expect([statusOf(node)?.containerID, statusOf(node)?.restartCount, conditionsOf(node)], `call ${at}`).toEqual([id, 0, []]);
      expect(at).toBeLessThan(20);
    }
  },
);

test("[node-agent 174] the status does not report the resize's generation as observed before the decision", async () => {
  const node = await startedNode();
  await node.create("p", { containers: [app(cpuOf("10"))] }, { generation: 1 });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(2 * SECONDS);
  await resize(node, cpuOf("20"));
  await node.until("it is seen", () => (node.pod("p")?.status?.observedGeneration ?? 0) > 1, 10 * SECONDS);
  expect(conditionsOf(node).length > 0 || has(node, cpuOf("20"))()).toBe(true);
});

test("[node-agent 174] a sync iteration before the decision uses and reports the allocated resources", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [app(cpuOf("10"))] });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(2 * SECONDS);
  const { ports } = node.agent;
  const pod = ports.pods.get(uid);
  if (pod === undefined) throw new Error("no pod");
  const { metadata, spec } = pod;
  ports.pods.set({ ...pod, metadata: { ...metadata, generation: 7 }, spec: { ...spec, containers: [app(cpuOf("20"))] } });
  const undecided = await allocatedPodOf(ports, uid);
  expect([undecided?.spec.containers[0]?.resources, undecided?.metadata.generation]).toEqual([cpuOf("10"), 1]);
  const pending = { reason: "Deferred", message: "", observedGeneration: 7, sinceMs: 0 } as const;
  await ports.store.update("allocations", uid, (row) => row && { ...row, pending });
  expect((await allocatedPodOf(ports, uid))?.metadata.generation).toBe(7);
});

test("[node-agent 171] removes the allocation with its pod", async () => {
  const { node } = await started(both("100m", "64Mi"));
  expect(node.files.read(FILE)).toContain("100m");
  await node.delete("p", 1);
  await node.until("gone", () => node.pod("p") === undefined);
  await node.advance(10 * SECONDS);
  expect(node.files.read(FILE)).toBe('{"version":1,"pods":{}}');
});

test("[node-agent 178] gives the pod's cgroup the larger limits before its containers change, and the allocated ones afterwards", async () => {
  const { node, uid } = await started(both("100m", "64Mi"));
  const path = `/kubepods/pod${uid}`;
  const group = () => [node.cgroups.files(path)?.["memory.limit_in_bytes"], node.cgroups.files(path)?.["cpu.cfs_quota_us"]];
  expect(group()).toEqual([String(64 * MB), "10000"]);
  const seen: unknown[] = [];
  node.onCall = ({ verb }) => verb === "updateContainerResources" && seen.push(group());
  await resize(node, both("200m", "128Mi"));
  await node.until("it has it", has(node, both("200m", "128Mi")), 10 * SECONDS);
  await resize(node, both("100m", "96Mi"));
  await node.until("it has less", has(node, both("100m", "96Mi")), 10 * SECONDS);
  expect(new Set(seen.map(String))).toEqual(new Set([`${128 * MB},20000`]));
  expect(group()).toEqual([String(96 * MB), "10000"]);
});

const RESTARTS = ["cpu", "memory"].map((resourceName) => ({ resourceName, restartPolicy: "RestartContainer" }));
const SIDE: ContainerSpec = { name: "side", image: "app:1", resources: both("50m", "32Mi") };

test.each([
  { name: "without an agent restart", dies: false },
  { name: "after an agent restart while the container is stopped", dies: true },
])("[node-agent 178] gives the cgroup the allocated limits before a container starts, $name", async ({ dies }) => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [app(both("100m", "64Mi"), { resizePolicy: RESTARTS }), SIDE] });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(2 * SECONDS);
  const files = () => node.cgroups.files(`/kubepods/pod${uid}`);
  const seen: unknown[] = [];
  node.onCall = ({ verb }) =>
    verb === "createContainer" && seen.push(`${files()?.["cpu.cfs_quota_us"]} ${files()?.["memory.limit_in_bytes"]}`);
  let hasDied = false;
  node.fateOf = ({ verb }) => {
    if (!dies || hasDied || verb !== "stopContainer") return "live";
    hasDied = true;
    return "dieAfter";
  };
  await resize(node, both("200m", "128Mi"));
  await node.advance(3 * SECONDS);
  if (dies) node.start();
  await node.until("it runs with it", () => statusOf(node)?.restartCount === 1 && node.isReady("p"), 30 * SECONDS);
  expect([hasDied, seen]).toEqual([dies, [`25000 ${160 * MB}`]]);
  await resize(node, both("100m", "64Mi"));
  await node.until("it has less", () => statusOf(node)?.restartCount === 2 && node.isReady("p"), 30 * SECONDS);
  expect(files()).toMatchObject({ "cpu.cfs_quota_us": "15000", "memory.limit_in_bytes": String(96 * MB) });
});
