// Would catch: a pod that runs without limits, a pod that is killed needlessly, a cgroup that remains after its pod, and node limits that
// are abandoned after the first error.
import { expect, test } from "vitest";
import type { NodeEvent } from "../../../../shared/node-agent/kubelet/events/event-recorder.ts";
import type { CgroupPolicy, NodeOptions } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import type { Cgroups } from "../../../../shared/node-agent/ports/cgroups.ts";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { createMemoryCgroups } from "../../../../shared/node-agent/memory/cgroups.ts";
import { createMemoryNodeStore } from "../../../../shared/node-agent/memory/node-store.ts";
import { PodManager } from "../../../../shared/node-agent/kubelet/pod/pod-manager.ts";
import { ContainerManager } from "../../../../shared/node-agent/kubelet/container-manager/container-manager.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";
import { recordingLog } from "../../recording-log.ts";
import { nodePod } from "../fixtures.ts";
import { MACHINE, OPTIONS } from "../../../harness/node/fixtures.ts";

const SECONDS = 1_000;
const app = (resources: NonNullable<ContainerSpec["resources"]> = {}, image = "app:1"): ContainerSpec => ({
  name: "app",
  image,
  resources,
});
const BURSTABLE = app({ requests: { cpu: "500m", memory: "64Mi" }, limits: { cpu: "1", memory: "64Mi" } });

interface SentEvent {
  readonly reason: string;
  readonly message: string;
  readonly involvedObject: { readonly kind: string };
}

function events(node: NodeHarness, reason: string): readonly string[] {
  return node.requests
    .filter(({ path }) => path.endsWith("/events"))
    .map(({ body }) => body as SentEvent) // an Event
    .filter((event) => event.reason === reason)
    .map(({ message, involvedObject }) => `${involvedObject.kind}: ${message}`);
}

const ready = (node: NodeHarness, name: string): Promise<void> => node.until(`${name} is ready`, () => node.isReady(name));

test("[node-agent 185] [node-agent 184] creates the kubepods cgroup and the Burstable and BestEffort cgroups at startup, with their resource settings", async () => {
  const node = await startedNode();
  expect(node.cgroups.files("/kubepods")).toEqual({ "memory.limit_in_bytes": String(64 * 2 ** 30), "cpu.shares": "65536" });
  expect(node.cgroups.files("/kubepods/burstable")).toEqual({ "cpu.shares": "2" });
  expect(node.cgroups.files("/kubepods/besteffort")).toEqual({ "cpu.shares": "2" });
  await node.until("it is told", () => events(node, "NodeAllocatableEnforced").length > 0);
  expect(events(node, "NodeAllocatableEnforced")).toEqual(["Node: Updated Node Allocatable limit across pods"]);
});

test("[node-agent 188] creates a pod's cgroup with its limits before the sandbox, and removes it with the pod", async () => {
  const node = await startedNode();
  let atSandbox: unknown;
  let parent = "";
  node.fateOf = ({ verb, args: [config] }) => {
    if (verb === "runPodSandbox") {
      parent = (config as { readonly linux: { readonly cgroupParent: string } }).linux.cgroupParent; // a PodSandboxConfig
      atSandbox = { pod: node.cgroups.files(parent), burstable: node.cgroups.files("/kubepods/burstable") };
    }
    return "live";
  };
  const uid = await node.create("p", { containers: [BURSTABLE] });
  await ready(node, "p");
  expect(parent).toBe(`/kubepods/burstable/pod${uid}`);
  const limits = { "memory.limit_in_bytes": "67108864", "cpu.shares": "512", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000" };
  expect(atSandbox).toEqual({ pod: limits, burstable: { "cpu.shares": "512" } });

  await node.delete("p", 1);
  await node.until("it is gone", () => node.pod("p") === undefined);
  expect(node.cgroups.files(parent)).toBeUndefined();
  await node.advance(60 * SECONDS);
  expect(node.cgroups.files("/kubepods/burstable")).toEqual({ "cpu.shares": "2" });
});

for (const last of ["create", "write"] as const)
  test(`[node-agent 188] after an agent crash at ${last}, the next agent sets the pod's limits before the pod runs`, async () => {
    const node = await startedNode();
    node.fateOf = ({ port, verb, args: [path] }) =>
      port === "cgroups" && verb === last && String(path).includes("/pod") ? (last === "create" ? "dieAfter" : "dieBefore") : "live";
    const uid = await node.create("p", { containers: [BURSTABLE] });
    const path = `/kubepods/burstable/pod${uid}`;
    await node.until("it died", () => !node.isAlive);
    expect(node.cgroups.files(path)).toEqual({});
    let atSandbox: unknown;
    node.fateOf = ({ verb }) => {
      if (verb === "runPodSandbox") atSandbox = node.cgroups.files(path)?.["memory.limit_in_bytes"];
      return "live";
    };
    node.start();
    await ready(node, "p");
    expect(atSandbox).toBe("67108864");
  });

test("[node-agent 188] kills the remaining processes in the cgroup of an ended pod", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [app()] });
  await ready(node, "p");
  await node.cgroups.enter(`/kubepods/besteffort/pod${uid}/stray`);
  await node.delete("p", 1);
  await node.until("it is gone", () => node.pod("p") === undefined);
  expect(node.cgroups.files(`/kubepods/besteffort/pod${uid}`)).toBeUndefined();
});

test("[node-agent 188] deletes a pod from the API server only after its cgroup is removed", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [app()] });
  await ready(node, "p");
  node.fateOf = ({ port, verb }) => (port === "cgroups" && verb === "remove" ? { fail: new Error("EBUSY") } : "live");
  await node.delete("p", 1);
  await node.advance(60 * SECONDS);
  expect([node.pod("p") !== undefined, await node.running(uid)]).toEqual([true, []]);
  node.fateOf = () => "live";
  await node.until("it is gone", () => node.pod("p") === undefined);
});

for (const { policy, running, phase } of [
  { policy: "Always", running: ["app"], phase: "Running" },
  { policy: "Never", running: [], phase: "Succeeded" },
] as const)
  test(`[node-agent 189] kills a pod that runs without its cgroup, and ${policy === "Always" ? "restarts it inside" : "does not restart it"}: ${policy}`, async () => {
    const node = await startedNode();
    const uid = await node.create("p", { containers: [app()], restartPolicy: policy });
    await ready(node, "p");
    await node.cgroups.remove("/kubepods/besteffort");
    await node.patch("p", { metadata: { labels: { look: "now" } } });
    const first = (await node.containers(uid))[0]?.id;
    await node.until("it was ended", async () =>
      (await node.containers(uid)).some(({ id, state }) => id === first && state === "CONTAINER_EXITED"),
    );
    await node.until("it has its end", async () => node.phase("p") === phase && (await node.running(uid)).length === running.length);
    expect(await node.running(uid)).toEqual(running);
    if (policy === "Always") expect(node.cgroups.files(`/kubepods/besteffort/pod${uid}`)).toEqual({ "cpu.shares": "2" });
  });

test("[node-agent 189] a restarted agent keeps pods that have their cgroup, and changes no limits", async () => {
  const node = await startedNode();
  const uid = await node.create("p", { containers: [BURSTABLE] });
  await ready(node, "p");
  const path = `/kubepods/burstable/pod${uid}`;
  await node.cgroups.write(path, [{ controller: "cpu", name: "cpu.shares", value: "777" }]);
  node.start();
  await node.advance(5 * SECONDS);
  expect([await node.running(uid), node.cgroups.files(path)?.["cpu.shares"]]).toEqual([["app"], "777"]);
  expect((await node.containers(uid)).length).toBe(1);
});

test("[node-agent 193] a restarted agent keeps the CPU shares of the QoS cgroups until its pods are known", async () => {
  const node = await startedNode();
  await node.create("p", { containers: [BURSTABLE] });
  await ready(node, "p");
  const seen = new Set<string | undefined>();
  node.fateOf = () => {
    seen.add(node.cgroups.files("/kubepods/burstable")?.["cpu.shares"]);
    return "live";
  };
  node.start();
  await node.advance(70 * SECONDS);
  expect([...seen]).toEqual(["512"]);
});

test("[node-agent 193] gives the QoS cgroups the CPU shares of their pods' requests: increases apply immediately, decreases within a minute", async () => {
  const node = await startedNode();
  const weight = (): string | undefined => node.cgroups.files("/kubepods/burstable")?.["cpu.shares"];
  await node.create("p", { containers: [BURSTABLE] });
  await node.create("q", { containers: [BURSTABLE] });
  await node.create("other", { containers: [app({ requests: { cpu: "2", memory: "1Mi" }, limits: { cpu: "2", memory: "1Mi" } })] });
  await Promise.all(["p", "q", "other"].map((name) => ready(node, name)));
  expect(weight()).toBe("1024");
  await node.delete("p", 1);
  await node.until("it is gone", () => node.pod("p") === undefined);
  await node.advance(60 * SECONDS);
  expect(weight()).toBe("512");
});

test("[node-agent 190] reports a cgroup that cannot be created, and starts its pod only after a successful retry", async () => {
  const node = await startedNode();
  node.fateOf = ({ port, verb, args: [path] }) =>
    port === "cgroups" && verb === "create" && String(path).includes("/pod") ? { fail: new Error("read-only file system") } : "live";
  const uid = await node.create("p", { containers: [app()] });
  await node.until("it is said", () => events(node, "FailedCreatePodContainer").length > 0);
  expect(events(node, "FailedCreatePodContainer")[0]).toBe("Pod: unable to ensure pod container exists: read-only file system");
  expect([node.phase("p"), await node.containers(uid)]).toEqual(["Pending", []]);
  expect(node.calls.some(({ verb }) => verb === "runPodSandbox")).toBe(false);
  node.fateOf = () => "live";
  await ready(node, "p");
});

test("[node-agent 191] removes the cgroup of an unknown pod and kills its processes", async () => {
  const node = await startedNode();
  const path = "/kubepods/burstable/pod0a1b2c3d-0000-4000-8000-000000000009";
  await node.cgroups.create("/kubepods/burstable/no-pod");
  await node.cgroups.enter(`${path}/container`);
  await node.advance(3 * SECONDS);
  expect(node.cgroups.files(path)).toBeUndefined();
  expect(node.cgroups.files("/kubepods/burstable/no-pod")).toBeDefined();
});

test("[node-agent 191] reduces the CPU shares of an unknown pod's cgroup until its directory is removed", async () => {
  const node = await startedNode();
  const uid = "0a1b2c3d-0000-4000-8000-000000000009";
  await node.files.makePodDirectories(uid);
  await node.cgroups.enter(`/kubepods/pod${uid}`);
  node.fateOf = ({ verb }) => (verb === "removePodDirectory" ? { fail: new Error("device or resource busy") } : "live");
  await node.advance(3 * SECONDS);
  expect(node.cgroups.files(`/kubepods/pod${uid}`)).toEqual({ "cpu.shares": "2" });
  node.fateOf = () => "live";
  await node.advance(5 * SECONDS);
  expect(node.cgroups.files(`/kubepods/pod${uid}`)).toBeUndefined();
});

test("[node-agent 192] retries the limits of the kubepods cgroup until the kernel accepts them, and reports the outcome", async () => {
  const node = await startedNode();
  node.kill();
  let refusals = 0;
  node.fateOf = ({ port, verb, args: [path] }) => {
    if (port !== "cgroups" || verb !== "write" || path !== "/kubepods" || refusals > 1) return "live";
    refusals++;
    return { fail: new Error("device or resource busy") };
  };
  node.start();
  await node.advance(130 * SECONDS);
  const message = 'Node: Failed to update Node Allocatable Limits "/kubepods": device or resource busy';
  expect(events(node, "FailedNodeAllocatableEnforcement")).toEqual([message]); // the second Event is the same one, repeated
  // one Event of this agent, and one of the previous agent
  expect([refusals, events(node, "NodeAllocatableEnforced").length]).toEqual([2, 2]);
});

/** Returns a container manager without other components; 65 bytes of memory are reserved. */
function managerOf(
  cgroups: Cgroups,
  options: Partial<NodeOptions>,
  record: (event: NodeEvent) => void = () => undefined,
): ContainerManager {
  return new ContainerManager({
    cgroups,
    record,
    store: createMemoryNodeStore(),
    pods: new PodManager(),
    condition: { sourcesReady: true },
    log: recordingLog(),
    options: { ...OPTIONS, ...options },
    resources: { ...MACHINE, reserved: { memoryBytes: 65 } },
  });
}

test("[node-agent 185] enforces limits on reserved cgroups, and reports a missing cgroup every minute", async () => {
  const cgroups = createMemoryCgroups({ roots: ["/kubepods", "/system", "/kube"] });
  await cgroups.create("/system");
  const told: string[] = [];
  const policy: CgroupPolicy = {
    ...OPTIONS.cgroups,
    enforce: ["system-reserved-compressible", "kube-reserved"],
    systemReserved: { resources: { cpuMilli: 500, memoryBytes: 1 }, cgroup: "/system" },
    kubeReserved: { resources: { cpuMilli: 250, memoryBytes: 64 }, cgroup: "/kube" },
  };
  const manager = managerOf(cgroups, { cgroups: policy }, ({ reason, message }) => void told.push(`${reason}: ${message}`));
  await manager.maintain();
  expect(cgroups.files("/kubepods")).toMatchObject({ "memory.limit_in_bytes": "8000000000" });
  expect(cgroups.files("/system")).toEqual({ "cpu.shares": "512" });
  await cgroups.create("/kube");
  await manager.maintain();
  await manager.maintain();
  expect(cgroups.files("/kube")).toEqual({ "cpu.shares": "256", "memory.limit_in_bytes": "64" });
  expect(told).toEqual([
    "NodeAllocatableEnforced: Updated Node Allocatable limit across pods",
    "NodeAllocatableEnforced: Updated limits on system reserved cgroup /system",
    'FailedNodeAllocatableEnforcement: Failed to enforce Kube Reserved Cgroup Limits on "/kube": cgroup does not exist',
    "NodeAllocatableEnforced: Updated limits on kube reserved cgroup /kube",
  ]);
});

test("[node-agent 187] creates no cgroups if cgroups-per-qos is off, and delays no pod", async () => {
  const cgroups = createMemoryCgroups({ roots: ["/kubepods"] });
  const manager = managerOf(cgroups, { cgroups: { ...OPTIONS.cgroups, perQos: false, enforce: [] } });
  await manager.maintain();
  await manager.updateQos();
  expect(await manager.stateOf(nodePod())).toEqual({ exists: true, isBounded: true });
  expect(cgroups.files("/kubepods")).toBeUndefined();
});

test("[node-agent 281] with the systemd driver, slices get the same limits, and reserved cgroups have systemd slice names", async () => {
  const cgroups = createMemoryCgroups({ roots: ["/kubepods.slice", "/kube.slice/kube-node.slice"] });
  await cgroups.create("/kube.slice/kube-node.slice");
  const told: string[] = [];
  const policy: CgroupPolicy = {
    ...OPTIONS.cgroups,
    enforce: ["kube-reserved"],
    kubeReserved: { resources: { cpuMilli: 250, memoryBytes: 64 }, cgroup: "/kube-node" },
  };
  const manager = managerOf(
    cgroups,
    { cgroupDriver: "systemd", cgroups: policy },
    ({ reason, message }) => void told.push(`${reason}: ${message}`),
  );
  await manager.maintain();
  expect(cgroups.files("/kubepods.slice")).toMatchObject({ "memory.limit_in_bytes": "8000000000" });
  expect(cgroups.files("/kubepods.slice/kubepods-besteffort.slice")).toMatchObject({ "cpu.shares": "2" });
  expect(cgroups.files("/kube.slice/kube-node.slice")).toEqual({ "cpu.shares": "256", "memory.limit_in_bytes": "64" });
  expect(told).toContain("NodeAllocatableEnforced: Updated limits on kube reserved cgroup /kube-node");
});

test("[node-agent 188] removes a pod's slice with the pod under the systemd driver, even if another process created it", async () => {
  const slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b2c3d_0000_4000_8000_000000000009.slice";
  const cgroups = createMemoryCgroups({ roots: ["/kubepods.slice"] });
  await cgroups.enter(`${slice}/container.scope`);
  const manager = managerOf(cgroups, { cgroupDriver: "systemd" });
  const [uid = ""] = await manager.podUids();
  expect(uid).toBe("0a1b2c3d-0000-4000-8000-000000000009");
  await manager.destroy(uid);
  expect(cgroups.files(slice)).toBeUndefined();
});
