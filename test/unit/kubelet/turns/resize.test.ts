// Would catch: a resize that restarts what it need not, room given twice, one that waits for ever, and a grant that a restart forgets.
import { expect, test } from "vitest";
import type { ContainerSpec, ContainerStatusEntry, NodePod } from "../../../../shared/kubelet/pod.ts";
import { allocatedPodOf } from "../../../../shared/kubelet/turns/allocations.ts";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig, NodeRigOptions } from "../../../harness/node/node.ts";

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

async function started(resources: Resources, fields: Partial<ContainerSpec> = {}, options: NodeRigOptions = {}) {
  const rig = await node(options);
  const uid = await rig.create("p", { containers: [app(resources, fields)] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(2 * SECONDS);
  return { rig, uid };
}

async function resize(rig: NodeRig, resources: Resources, name = "p"): Promise<void> {
  await rig.patch(name, { spec: { containers: [{ name: "app", resources }] } }, "/resize");
}

/** Events of resizes, as they were sent. */
function events(rig: NodeRig): readonly string[] {
  return rig.requests
    .filter(({ path }) => path.endsWith("/events"))
    .map(({ body }) => String((body as { readonly reason?: string } | undefined)?.reason)) // an Event
    .filter((reason) => reason.startsWith("Resize"));
}

const statusOf = (rig: NodeRig, name = "p"): ContainerStatusEntry | undefined => rig.pod(name)?.status?.containerStatuses?.[0];
const conditions = ({ status }: NodePod): readonly string[] =>
  (status?.conditions ?? []).filter(({ type }) => type.startsWith("PodResize")).map(({ type, reason = "" }) => `${type} ${reason}`.trim());
const conditionsOf = (rig: NodeRig, name = "p"): readonly string[] => {
  const pod = rig.pod(name);
  return pod === undefined ? [] : conditions(pod);
};
const updates = (rig: NodeRig) => rig.calls.filter(({ verb }) => verb === "updateContainerResources").map(({ args }) => args[1]);
const has = (rig: NodeRig, resources: Resources) => () =>
  JSON.stringify(statusOf(rig)?.resources) === JSON.stringify(statusOf(rig) && sorted(resources));
const sorted = ({ limits, requests }: Resources): Resources => ({ ...(limits && { limits }), ...(requests && { requests }) });

test("[node-agent 167] a resize is set where the container runs, memory before CPU, and is told", async () => {
  const { rig, uid } = await started(both("100m", "64Mi"));
  expect(statusOf(rig)).toMatchObject({ allocatedResources: { cpu: "100m", memory: "64Mi" }, resources: both("100m", "64Mi") });
  const id = statusOf(rig)?.containerID;
  await resize(rig, both("200m", "128Mi"));
  await rig.until("it has it", has(rig, both("200m", "128Mi")), 10 * SECONDS);
  expect(updates(rig)).toMatchObject([
    { memoryLimitInBytes: 128 * MB, cpuQuota: 10_000, cpuShares: 102 },
    { memoryLimitInBytes: 128 * MB, cpuQuota: 20_000, cpuShares: 204 },
  ]);
  expect(statusOf(rig)).toMatchObject({ containerID: id, restartCount: 0, allocatedResources: { cpu: "200m", memory: "128Mi" } });
  expect((await rig.containers(uid))[0]?.resources).toMatchObject({ cpuQuota: 20_000, memoryLimitInBytes: 128 * MB });
  await rig.advance(2 * SECONDS);
  expect(conditionsOf(rig)).toEqual([]);
  expect(events(rig)).toEqual(["ResizeStarted", "ResizeCompleted"]);
  await rig.advance(120 * SECONDS);
  expect(updates(rig).length).toBe(2);
});

test("[node-agent 168] a policy that says so restarts the container, once, with all of it", async () => {
  const resizePolicy = [{ resourceName: "memory", restartPolicy: "RestartContainer" }];
  const { rig, uid } = await started(both("100m", "64Mi"), { resizePolicy });
  await resize(rig, both("200m", "128Mi"));
  await rig.until("it runs with it", () => statusOf(rig)?.restartCount === 1 && rig.isReady("p"), 20 * SECONDS);
  expect((await rig.containers(uid)).at(-1)?.resources).toMatchObject({ cpuQuota: 20_000, memoryLimitInBytes: 128 * MB });
  await rig.advance(90 * SECONDS);
  expect(statusOf(rig)).toMatchObject({ restartCount: 1, resources: both("200m", "128Mi") });
  expect([updates(rig), conditionsOf(rig)]).toEqual([[], []]);
});

test("[node-agent 169] [node-agent 175] what there is no room for is deferred, and granted once there is", async () => {
  const { rig } = await started(cpuOf("10"));
  await rig.create("big", { containers: [app(cpuOf("50"))] });
  await rig.until("it runs", () => rig.isReady("big"));
  await resize(rig, cpuOf("20"));
  await rig.until("it waits", () => conditionsOf(rig).includes("PodResizePending Deferred"), 10 * SECONDS);
  expect(statusOf(rig)).toMatchObject({ allocatedResources: { cpu: "10" }, resources: cpuOf("10") });
  await rig.create("small", { containers: [app(cpuOf("4"))] }); // 10 + 50 + 4: what is asked for does not count
  await rig.until("it has the room that is left", () => rig.isReady("small"));
  await rig.advance(70 * SECONDS);
  expect(events(rig)).toEqual(["ResizeDeferred"]);
  await rig.delete("big", 1);
  await rig.until("it has it", has(rig, cpuOf("20")), 20 * SECONDS);
  await rig.advance(2 * SECONDS);
  expect(events(rig)).toEqual(["ResizeDeferred", "ResizeStarted", "ResizeCompleted"]);
  expect([conditionsOf(rig), statusOf(rig)?.restartCount]).toEqual([[], 0]);
});

test("[node-agent 169] what one gives back, another that waits for it gets", async () => {
  const { rig } = await started(cpuOf("10"));
  await rig.create("q", { containers: [app(cpuOf("50"))] });
  await rig.until("it runs", () => rig.isReady("q"));
  await resize(rig, cpuOf("30"));
  await rig.until("it waits", () => conditionsOf(rig).includes("PodResizePending Deferred"), 10 * SECONDS);
  await resize(rig, cpuOf("30"), "q");
  await rig.until("it has it", has(rig, cpuOf("30")), 10 * SECONDS);
});

test("[node-agent 165] what the node never has is infeasible, and taken back it is nothing", async () => {
  const { rig } = await started(cpuOf("10"));
  await resize(rig, cpuOf("100"));
  await rig.until("it is said", () => conditionsOf(rig).includes("PodResizePending Infeasible"), 10 * SECONDS);
  await rig.advance(65 * SECONDS);
  expect(events(rig)).toEqual(["ResizeInfeasible"]);
  await resize(rig, cpuOf("10"));
  await rig.until("it is said no more", () => conditionsOf(rig).length === 0, 10 * SECONDS);
  expect(updates(rig)).toEqual([]);
});

test("[node-agent 170] a memory limit is not set below what is used; the next one is", async () => {
  const { rig } = await started(both("100m", "64Mi"), { image: "fat:1" }, { images: { "fat:1": { memoryBytes: 40 * MB } } });
  await resize(rig, both("100m", "32Mi"));
  await rig.until("it is said", () => conditionsOf(rig).includes("PodResizeInProgress Error"), 20 * SECONDS);
  const told = rig.pod("p")?.status?.conditions?.find(({ type }) => type === "PodResizeInProgress")?.message;
  expect(told).toBe(
    `cannot decrease memory limits: attempting to set container "app" memory limit (${32 * MB}) below current usage (${40 * MB})`,
  );
  expect(statusOf(rig)).toMatchObject({ allocatedResources: { memory: "32Mi" }, resources: both("100m", "64Mi"), restartCount: 0 });
  await rig.advance(60 * SECONDS);
  expect([events(rig), updates(rig)]).toEqual([["ResizeStarted", "ResizeError"], []]);
  await resize(rig, both("100m", "48Mi"));
  await rig.until("it has it", has(rig, both("100m", "48Mi")), 20 * SECONDS);
  await rig.advance(2 * SECONDS);
  expect(conditionsOf(rig)).toEqual([]);
});

test("[node-agent 167] a call that fails is told, and made again", async () => {
  const { rig } = await started(both("100m", "64Mi"));
  let fails = true;
  rig.fateOf = ({ verb }) => (verb === "updateContainerResources" && fails ? { fail: new Error("busy") } : "live");
  await resize(rig, both("200m", "64Mi"));
  await rig.until("it is said", () => conditionsOf(rig).includes("PodResizeInProgress Error"), 20 * SECONDS);
  fails = false;
  await rig.until("it has it", has(rig, both("200m", "64Mi")), 30 * SECONDS);
  await rig.advance(2 * SECONDS);
  expect(conditionsOf(rig)).toEqual([]);
});

test("[node-agent 171] a pod whose resize waits has the same room after a restart of the agent", async () => {
  const rig = await node();
  await rig.create("big", { containers: [app(cpuOf("50"))] });
  await rig.advance(2 * SECONDS);
  await rig.create("p", { containers: [app(cpuOf("10"))] }); // admitted after it
  await rig.until("they run", () => rig.isReady("big") && rig.isReady("p"));
  await resize(rig, cpuOf("20"));
  await rig.until("it waits", () => conditionsOf(rig).includes("PodResizePending Deferred"), 10 * SECONDS);
  const since = rig.pod("p")?.status?.conditions?.find(({ type }) => type === "PodResizePending")?.lastTransitionTime;
  rig.start();
  await rig.advance(60 * SECONDS);
  expect([rig.phase("p"), rig.phase("big")]).toEqual(["Running", "Running"]);
  expect(statusOf(rig)).toMatchObject({ allocatedResources: { cpu: "10" }, restartCount: 0 });
  expect(rig.pod("p")?.status?.conditions?.find(({ type }) => type === "PodResizePending")?.lastTransitionTime).toBe(since);
  expect(events(rig)).toEqual(["ResizeDeferred"]);
});

test("[node-agent 171] a resize that came while the agent was away is set when it is back", async () => {
  const { rig } = await started(both("100m", "64Mi"), { resizePolicy: [{ resourceName: "cpu", restartPolicy: "NotRequired" }] });
  rig.kill();
  await resize(rig, both("200m", "64Mi"));
  rig.start();
  await rig.until("it has it", has(rig, both("200m", "64Mi")), 10 * SECONDS);
  expect(updates(rig).length).toBe(1);
});

test.each(["", '{"data":"{}","checksum":1}'])("[node-agent 171] a file that says %j is as none", async (text) => {
  const { rig } = await started(both("100m", "64Mi"));
  rig.kill();
  rig.files.write(FILE, text);
  rig.start();
  await rig.advance(10 * SECONDS);
  expect(rig.isReady("p")).toBe(true);
  expect(statusOf(rig)?.restartCount).toBe(0);
});

test("[node-agent 173] what an earlier agent made is set once more, without a restart and without a word", async () => {
  const resizePolicy = ["cpu", "memory"].map((resourceName) => ({ resourceName, restartPolicy: "RestartContainer" }));
  const { rig } = await started(both("100m", "64Mi"), { resizePolicy });
  const id = statusOf(rig)?.containerID;
  rig.kill();
  rig.files.write(FILE, '{"version":1,"pods":{}}');
  rig.start();
  await rig.advance(90 * SECONDS);
  expect(statusOf(rig)).toMatchObject({ containerID: id, restartCount: 0 });
  expect(updates(rig)).toMatchObject([{ memoryLimitInBytes: 64 * MB }, { cpuQuota: 10_000 }]);
  expect([events(rig), conditionsOf(rig)]).toEqual([[], []]);
});

test.each(["dieBefore", "dieAfter"] as const)(
  "[node-agent 172] killed (%s) at each call on the way, the next agent ends it",
  async (fate) => {
    for (let at = 0, died = true; died; at++) {
      const { rig } = await started(both("100m", "64Mi"));
      const id = statusOf(rig)?.containerID;
      let calls = 0;
      died = false;
      rig.fateOf = ({ verb }) => {
        if (died || !["updateContainerResources", "writeCheckpoint"].includes(verb) || calls++ !== at) return "live";
        died = true;
        return fate;
      };
      await resize(rig, both("200m", "128Mi"));
      await rig.advance(3 * SECONDS);
      if (died) rig.start();
      await rig.until("it has it", has(rig, both("200m", "128Mi")), 30 * SECONDS);
      await rig.advance(3 * SECONDS);
      expect([statusOf(rig)?.containerID, statusOf(rig)?.restartCount, conditionsOf(rig)], `call ${at}`).toEqual([id, 0, []]);
      expect(at).toBeLessThan(20);
    }
  },
);

test("[node-agent 174] the status does not say that a resize was seen before it says what became of it", async () => {
  const rig = await node();
  await rig.create("p", { containers: [app(cpuOf("10"))] }, { generation: 1 });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(2 * SECONDS);
  await resize(rig, cpuOf("20"));
  await rig.until("it is seen", () => (rig.pod("p")?.status?.observedGeneration ?? 0) > 1, 10 * SECONDS);
  expect(conditionsOf(rig).length > 0 || has(rig, cpuOf("20"))()).toBe(true);
});

test("[node-agent 174] a turn that comes before the decision works on what the pod had, and says so", async () => {
  const rig = await node();
  const uid = await rig.create("p", { containers: [app(cpuOf("10"))] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(2 * SECONDS);
  const { ports } = rig.agent;
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

test("[node-agent 171] what was granted to a pod is forgotten with it", async () => {
  const { rig } = await started(both("100m", "64Mi"));
  expect(rig.files.read(FILE)).toContain("100m");
  await rig.delete("p", 1);
  await rig.until("gone", () => rig.pod("p") === undefined);
  await rig.advance(10 * SECONDS);
  expect(rig.files.read(FILE)).toBe('{"version":1,"pods":{}}');
});

test("[node-agent 178] a pod's control group has room for the new limits before its containers have them, and no more afterwards", async () => {
  const { rig, uid } = await started(both("100m", "64Mi"));
  const path = `/kubepods/pod${uid}`;
  const group = () => [rig.cgroups.files(path)?.["memory.limit_in_bytes"], rig.cgroups.files(path)?.["cpu.cfs_quota_us"]];
  expect(group()).toEqual([String(64 * MB), "10000"]);
  const seen: unknown[] = [];
  rig.onCall = ({ verb }) => verb === "updateContainerResources" && seen.push(group());
  await resize(rig, both("200m", "128Mi"));
  await rig.until("it has it", has(rig, both("200m", "128Mi")), 10 * SECONDS);
  await resize(rig, both("100m", "96Mi"));
  await rig.until("it has less", has(rig, both("100m", "96Mi")), 10 * SECONDS);
  expect(new Set(seen.map(String))).toEqual(new Set([`${128 * MB},20000`]));
  expect(group()).toEqual([String(96 * MB), "10000"]);
});

const RESTARTS = ["cpu", "memory"].map((resourceName) => ({ resourceName, restartPolicy: "RestartContainer" }));
const SIDE: ContainerSpec = { name: "side", image: "app:1", resources: both("50m", "32Mi") };

test.each([
  { name: "with a turn that goes on", dies: false },
  { name: "by an agent that comes back before the container does", dies: true },
])("[node-agent 178] the group has what is granted before a container starts with it, $name", async ({ dies }) => {
  const rig = await node();
  const uid = await rig.create("p", { containers: [app(both("100m", "64Mi"), { resizePolicy: RESTARTS }), SIDE] });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(2 * SECONDS);
  const files = () => rig.cgroups.files(`/kubepods/pod${uid}`);
  const seen: unknown[] = [];
  rig.onCall = ({ verb }) =>
    verb === "createContainer" && seen.push(`${files()?.["cpu.cfs_quota_us"]} ${files()?.["memory.limit_in_bytes"]}`);
  let hasDied = false;
  rig.fateOf = ({ verb }) => {
    if (!dies || hasDied || verb !== "stopContainer") return "live";
    hasDied = true;
    return "dieAfter";
  };
  await resize(rig, both("200m", "128Mi"));
  await rig.advance(3 * SECONDS);
  if (dies) rig.start();
  await rig.until("it runs with it", () => statusOf(rig)?.restartCount === 1 && rig.isReady("p"), 30 * SECONDS);
  expect([hasDied, seen]).toEqual([dies, [`25000 ${160 * MB}`]]);
  await resize(rig, both("100m", "64Mi"));
  await rig.until("it has less", () => statusOf(rig)?.restartCount === 2 && rig.isReady("p"), 30 * SECONDS);
  expect(files()).toMatchObject({ "cpu.cfs_quota_us": "15000", "memory.limit_in_bytes": String(96 * MB) });
});
