/**
 * Changes of running containers and of their agent: pods are resized in place, and the agent is stopped and replaced by another one while
 * they run. Uses a real API server, one of our nodes, real containers, and the kernel's own cgroup files.
 */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import {
  conditionOf,
  containerOf,
  eventsSay,
  podOf,
  podReady,
  podWhere,
  runtimeId,
  server,
  shell,
  STAY,
} from "../harness/node-processes/pods.ts";
import type { ContainerView, PodView } from "../harness/node-processes/pods.ts";

/** The kernel's files in each cgroup version: the memory limit in bytes, and the CPU quota in microseconds per 100 ms. */
const LIMITS =
  "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes 2> /dev/null || cat memory.max; " +
  "cat cpu/cpu.cfs_quota_us 2> /dev/null || cut -d ' ' -f 1 cpu.max";
const MB = 2 ** 20;
/** Time in ms in which a change would appear: the node reports its status every 10 s, and a failed sync is retried after 10 to 15 s. */
const LOOK_MS = 12_000;

const both = (cpu: string, memory: string): object => ({ requests: { cpu, memory }, limits: { cpu, memory } });

type Sized = ContainerView & { readonly resources?: object; readonly allocatedResources?: object };

await whereNodesCanRun("resizes and upgrades on a node of ours", () => {
  let cluster: Cluster;
  let node: NodeAgent;

  beforeAll(async () => {
    cluster = await startCluster({ machines: "scheduler" });
    const [first] = await startNodes(cluster, ["node-a"]);
    if (first === undefined) throw new Error("a node was to start");
    node = first;
    await nodesReady(cluster, node);
  });

  afterAll(async () => {
    await node?.stop();
    await cluster?.stop();
  });

  const limitsOf = async (pod: PodView): Promise<readonly number[]> => {
    const { stdout } = await node.cri.execSync(runtimeId(containerOf(pod)), ["sh", "-c", LIMITS], 10);
    return stdout.trim().split("\n").map(Number);
  };
  const resize = async (name: string, resources: object): Promise<void> => {
    const patch = JSON.stringify({ spec: { containers: [{ name: "main", resources }] } });
    await cluster.kubectl("patch", "pod", name, "--subresource", "resize", "--patch", patch);
  };
  /** Waits until the size is reported and no resize is pending. */
  const hasSize = async (name: string, resources: object): Promise<PodView> =>
    await podWhere(cluster, name, "has its new size", (pod) => {
      const { resources: told }: Sized = containerOf(pod);
      const isDone = ["PodResizePending", "PodResizeInProgress"].every((type) => conditionOf(pod.status, type) === undefined);
      return isDone && JSON.stringify(told) === JSON.stringify(resources);
    });

  it("[node-agent 176] the kernel's limits follow kubectl patch --subresource resize, without restarts", async () => {
    const small = { limits: { cpu: "100m", memory: "32Mi" }, requests: { cpu: "100m", memory: "32Mi" } };
    const large = { limits: { cpu: "200m", memory: "64Mi" }, requests: { cpu: "200m", memory: "64Mi" } };
    await cluster.apply(podOf("grows", { containers: [shell("main", STAY, { resources: small })] }));
    const before = await podReady(cluster, "grows");
    expect(await limitsOf(before)).toEqual([32 * MB, 10_000]);
    await resize("grows", large);
    const after = await hasSize("grows", large);
    expect(await limitsOf(after)).toEqual([64 * MB, 20_000]);
    await resize("grows", small);
    expect(await limitsOf(await hasSize("grows", small))).toEqual([32 * MB, 10_000]);
    expect(containerOf(after)).toMatchObject({ containerID: containerOf(before).containerID, restartCount: 0 });
    await resize("grows", { requests: { memory: "64Ki" }, limits: { memory: "64Ki" } });
    const refused = await podWhere(
      cluster,
      "grows",
      "cannot be so small",
      ({ status }) => conditionOf(status, "PodResizeInProgress")?.reason === "Error",
    );
    expect(conditionOf(refused.status, "PodResizeInProgress")?.message).toMatch(/memory limit \(65536\) below current usage \(\d+\)$/);
    expect(containerOf(refused)).toMatchObject({ resources: small, allocatedResources: { memory: "64Ki" }, restartCount: 0 });
    const resources = '{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}';
    const sized = `{"containers":[{"name":"main","resources":${resources}}],"generation":2}`;
    await eventsSay(cluster, "grows", `ResizeStarted: Pod resize started: ${sized}`, `ResizeCompleted: Pod resize completed: ${sized}`);
  });

  it("[node-agent 177] a new agent restarts no container, even when its predecessor kept no checkpoints", async () => {
    const restarts = ["cpu", "memory"].map((resourceName) => ({ resourceName, restartPolicy: "RestartContainer" }));
    const get = { tcpSocket: { port: 8080 }, periodSeconds: 1 };
    await cluster.apply(
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { key: "value" } },
      podOf("probed", {
        containers: [
          server({
            startupProbe: get,
            livenessProbe: get,
            readinessProbe: get,
            resources: both("50m", "32Mi"),
            resizePolicy: restarts,
            ports: [{ containerPort: 8080 }],
          }),
        ],
      }),
      podOf("together", {
        securityContext: { runAsUser: 65_534, fsGroup: 4_321 },
        initContainers: [
          shell("first", "true", { resources: { requests: { cpu: "20m" } } }),
          shell("side", STAY, { restartPolicy: "Always", resources: { limits: { memory: "24Mi" } }, resizePolicy: restarts }),
        ],
        containers: [
          shell("main", STAY, {
            env: [
              { name: "CPUS", valueFrom: { resourceFieldRef: { resource: "limits.cpu" } } },
              { name: "KEY", valueFrom: { configMapKeyRef: { name: "settings", key: "key" } } },
            ],
            volumeMounts: ["settings", "scratch", "about"].map((name) => ({ name, mountPath: `/mnt/${name}` })),
            resources: { requests: { cpu: "1m", memory: "1000k" }, limits: { cpu: "0.5" } },
            resizePolicy: restarts,
            lifecycle: { postStart: { exec: { command: ["true"] } } },
          }),
          shell("other", STAY),
        ],
        volumes: [
          { name: "settings", configMap: { name: "settings" } },
          { name: "scratch", emptyDir: { medium: "Memory", sizeLimit: "8Mi" } },
          { name: "about", downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
        ],
      }),
      podOf("on-host", { hostNetwork: true, hostPID: true, restartPolicy: "Never", containers: [shell("main", STAY)] }),
    );
    await writeFile(
      join(node.manifests, "static.json"),
      JSON.stringify(podOf("static", { containers: [shell("main", STAY, { resources: both("0.05", "32Mi"), resizePolicy: restarts })] })),
    );
    const names = ["grows", "probed", "together", "on-host", "static-node-a"];
    const all = async (): Promise<readonly PodView[]> => await Promise.all(names.map((name) => podReady(cluster, name)));
    const ran = (pods: readonly PodView[]): readonly unknown[] =>
      pods.map(({ metadata, status: { initContainerStatuses = [], containerStatuses = [] } }) => [
        metadata.name,
        [...initContainerStatuses, ...containerStatuses].map(({ name, containerID, restartCount }) => [name, containerID, restartCount]),
      ]);
    await resize("grows", both("100m", "32Mi"));
    await hasSize("grows", { limits: { cpu: "100m", memory: "32Mi" }, requests: { cpu: "100m", memory: "32Mi" } });
    const before = ran(await all());
    const allContainers = async (): Promise<readonly string[]> =>
      (await node.containers()).map(({ id, state }) => `${id} ${state}`).toSorted();
    const containers = await allContainers();

    for (const isOlder of [false, true]) {
      await node.agent().stop();
      // Simulates an agent version that did not write this file.
      if (isOlder) await rm(join(node.containerd.directory, "kubelet", "deltaloop-allocations.json"));
      await node.start();
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
      expect(ran(await all()), `older ${isOlder}`).toEqual(before);
      expect(await allContainers()).toEqual(containers);
    }
  });
});
