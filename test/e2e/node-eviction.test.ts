/**
 * A node under pressure, on a real containerd: of memory, because a threshold is higher than the available memory or because the limit of
 * all pods is low; and of disk space, because a small disk is filled.
 */
import { rm, statfs, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { eventually, measured, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import { getPod, podOf, podReady, shell, STAY } from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";

const MIB = 1024 ** 2;
const HARD = "imagefs.available<15%";
const WAIT_MS = 90_000;

await whereNodesCanRun("a node that runs short", () => {
  let cluster: Cluster;
  let nodes: readonly NodeAgent[] = [];

  beforeAll(async () => {
    cluster = await startCluster({ machines: "scheduler" });
    const transition = ["--eviction-pressure-transition-period", "15s"];
    nodes = (
      await Promise.all([
        startNodes(cluster, ["disk"], {
          diskBytes: 160 * MIB,
          flags: ["--eviction-hard", HARD, "--minimum-image-ttl-duration", "1h", ...transition],
        }),
        startNodes(cluster, ["bounded"], {
          flags: ["--system-reserved", `memory=${totalmem() - 200 * MIB}`, "--eviction-hard", "memory.available<100Mi", ...transition],
        }),
        startNodes(cluster, ["memory"], { flags: ["--eviction-hard", "memory.available<99%", ...transition] }),
      ])
    ).flat();
    await nodesReady(cluster, ...nodes);
  });

  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.stop()));
    await cluster?.stop();
  });

  const node = (name: string): NodeAgent => {
    const found = nodes.find((one) => one.name === name);
    if (found === undefined) throw new Error(`there is no node ${name}`);
    return found;
  };
  const condition = async (name: string, type: string): Promise<string | undefined> =>
    (await cluster.get<NodeView>(`/api/v1/nodes/${name}`))?.status.conditions.find((one) => one.type === type)?.status;
  const evicted = async (name: string): Promise<PodView["status"]> => {
    await eventually(`${name} is evicted`, async () => (await getPod(cluster, name))?.status.reason === "Evicted", WAIT_MS);
    const pod = await getPod(cluster, name);
    if (pod === undefined) throw new Error(`${name} is gone`);
    return pod.status;
  };
  const said = async (pod: string): Promise<EventView | undefined> =>
    (await cluster.list<EventView>("/api/v1/events")).find(
      ({ reason, involvedObject }) => reason === "Evicted" && involvedObject.name === pod,
    );
  const on = (nodeName: string, name: string, script: string, spec: object = {}, container: object = {}): object =>
    podOf(name, { nodeName, containers: [shell("main", script, container)], ...spec });

  it("[node-agent 222] evicts a pod whose emptyDir exceeds its limit, and reports why", async () => {
    const volumes = [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }];
    const mounts = { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] };
    await cluster.apply(on("disk", "greedy", `cat /bin/busybox /bin/busybox /bin/busybox > /scratch/file; ${STAY}`, { volumes }, mounts));
    await cluster.apply(on("disk", "modest", STAY, { volumes }, mounts));
    const { phase, message } = await evicted("greedy");
    expect([phase, message]).toEqual(["Failed", 'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi". ']);
    await podReady(cluster, "modest");
  });

  it("[node-agent 222] evicts a pod whose container exceeds its limit, according to the runtime's size of its writable layer", async () => {
    const limits = { resources: { limits: { "ephemeral-storage": "1Mi" } } };
    await cluster.apply(on("disk", "writer", `cat /bin/busybox /bin/busybox /bin/busybox > /file; ${STAY}`, {}, limits));
    expect((await evicted("writer")).message).toBe("Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ");
  });

  it("[node-agent 223] evicts the largest consumer of a full disk, reports the pressure, and accepts pods again when there is space", async () => {
    const much = Array<string>(4).fill("/bin/busybox").join(" ");
    await cluster.apply(on("disk", "big", `cat ${much} > /file; ${STAY}`));
    await podReady(cluster, "big");
    const root = join(node("disk").containerd.directory, "root");
    const { bavail, bsize, blocks } = await statfs(root);
    await writeFile(join(root, "ballast"), Buffer.alloc((bavail - Math.trunc(blocks / 10)) * bsize, 1));
    const { message, conditions } = await evicted("big");
    measured(`full disk: ${message}`);
    expect(message).toMatch(
      /^The node was low on resource: ephemeral-storage\. Threshold quantity: \d+\w*, available: \d+\w*\. Container main was using \d+\w*, request is 0, has larger consumption of ephemeral-storage\. $/u,
    );
    expect(conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({ status: "True", reason: "TerminationByKubelet" });
    expect((await said("big"))?.metadata.annotations).toMatchObject({
      offending_containers: "main",
      starved_resource: "ephemeral-storage",
    });
    await eventually("it is said", async () => (await condition("disk", "DiskPressure")) === "True", WAIT_MS);

    await cluster.apply(on("disk", "late", STAY));
    expect((await evicted("late")).message).toBe("Pod was rejected: The node had condition: [DiskPressure]. ");
    await rm(join(root, "ballast"));
    await eventually("there is no pressure", async () => (await condition("disk", "DiskPressure")) === "False", WAIT_MS);
    await cluster.apply(on("disk", "again", STAY));
    await podReady(cluster, "again");
  });

  it("[node-agent 252] evicts a pod when all pods together reach the node's pod memory limit, even if the node has free memory", async () => {
    const volumes = [{ name: "memory", emptyDir: { medium: "Memory" } }];
    const mounts = { volumeMounts: [{ name: "memory", mountPath: "/memory" }] };
    await cluster.apply(on("bounded", "small", STAY));
    await podReady(cluster, "small");
    const fill = "i=0; while [ $i -lt 80 ]; do cat /bin/busybox >> /memory/file; i=$((i + 1)); done";
    await cluster.apply(on("bounded", "large", `${fill}; ${STAY}`, { volumes }, mounts));
    const { message } = await evicted("large");
    measured(`pods at their limit: ${message}`);
    expect(message).toMatch(/^The node was low on resource: memory\. Threshold quantity: 100Mi, available: \d+\w*\. /u);
    await eventually("it is said", async () => (await condition("bounded", "MemoryPressure")) === "True", WAIT_MS);
    await podReady(cluster, "small");
  });

  it("[node-agent 224] rejects pods without requests when memory is low, and evicts others one by one", async () => {
    await eventually("it is said", async () => (await condition("memory", "MemoryPressure")) === "True", WAIT_MS);
    await cluster.apply(on("memory", "nothing", STAY));
    expect((await evicted("nothing")).message).toBe("Pod was rejected: The node had condition: [MemoryPressure]. ");
    const asking = { resources: { requests: { cpu: "1m" } } };
    await cluster.apply(on("memory", "something", STAY, {}, asking));
    const { message } = await evicted("something");
    measured(`short of memory: ${message}`);
    expect(message).toMatch(/^The node was low on resource: memory\. Threshold quantity: \d+\w*, available: \d+\w*\. /u);
    await eventually("nothing of it runs", async () =>
      (await node("memory").containers()).every(({ state }) => state !== "CONTAINER_RUNNING"),
    );
  });
});

interface NodeView {
  readonly status: { readonly conditions: readonly { readonly type: string; readonly status: string }[] };
}

interface EventView {
  readonly reason: string;
  readonly metadata: { readonly annotations?: object };
  readonly involvedObject: { readonly name: string };
}
