/**
 * Nodes for the demo: one node agent each, wired as in `deltaloop node`, with an in-memory container runtime and files in a temporary
 * folder. Every image can be pulled, and its containers run until they are stopped; the machine is not changed.
 */
import { join } from "node:path";
import { createMemoryCgroups, createMemoryCri, createMemoryNodeStore } from "@deltaloop/node-agent/memory";
import { createNodeFiles } from "@deltaloop/node-agent/files";
import { PodManager, DEFAULT_EVICTION, DEFAULT_IMAGE_PULLS } from "@deltaloop/node-agent/kubelet";
import type { MachineFacts, NodeOptions } from "@deltaloop/node-agent/kubelet";
import { runBinder } from "@deltaloop/api-server";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Kube } from "@deltaloop/kube/client";
import type { Prober } from "@deltaloop/node-agent/ports";
import { createNodeAgent, startCondition } from "../node/node-agent.ts";
import { createOwnFolder } from "@deltaloop/local/processes";

export interface MemoryNodesOptions {
  readonly count: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

const GIB = 2 ** 30;
const PODS_MAX = 110;
/** Duration of an image's first pull on a node. */
const PULL_MS = 300;

/** Runs until `signal` aborts. */
export async function runMemoryNodes(kube: Kube, options: MemoryNodesOptions, signal: AbortSignal): Promise<void> {
  const { count, clock, random } = options;
  const folder = createOwnFolder("nodes");
  const names = Array.from({ length: count }, (_, index) => `node-${index}`);
  try {
    const agents = names.map((name, index) => runNode(kube, { name, index, folder: join(folder.path, name), ...options }, signal));
    await Promise.all([runBinder(kube, { nodes: names, clock, random }, signal), ...agents]);
  } finally {
    folder.remove();
  }
}

async function runNode(
  kube: Kube,
  node: MemoryNodesOptions & { readonly name: string; readonly index: number; readonly folder: string },
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, log, name, index, folder } = node;
  const options = nodeOptions(name, index, folder);
  const agent = createNodeAgent({
    kube,
    cri: createMemoryCri({ clock, random, images: {}, remoteImages: () => ({ pullMs: PULL_MS }), subnet: `10.88.${index}` }),
    store: createMemoryNodeStore(),
    files: createNodeFiles({ ...options, log }),
    cgroups: createMemoryCgroups({ roots: ["/kubepods"] }),
    machine: { usage: async () => ({ memoryBytes: 16 * GIB, workingSetBytes: GIB }) },
    prober: EVERYTHING_ANSWERS,
    ...{ clock, random, log, options },
    pods: new PodManager(),
    condition: startCondition(clock.now()),
    facts: factsOf(name),
    runtime: { runtimeName: "memory", runtimeVersion: "1" },
    sources: ["api"],
  });
  await agent.run(signal);
}

const answers = async (): Promise<Awaited<ReturnType<Prober["httpGet"]>>> => await Promise.resolve({ result: "Success", output: "" });
const EVERYTHING_ANSWERS: Prober = { httpGet: answers, tcpSocket: answers, grpcHealth: answers };

function nodeOptions(nodeName: string, index: number, folder: string): NodeOptions {
  return {
    nodeName,
    hostIps: [`10.0.0.${index + 1}`],
    rootDir: join(folder, "kubelet"),
    podLogsDir: join(folder, "pods"),
    containerLogsDir: join(folder, "containers"),
    cgroupRoot: "/",
    cgroupDriver: "cgroupfs",
    port: 0, // starts no server, because these containers have no logs and run no commands
    maxPods: PODS_MAX,
    clusterDns: ["10.96.0.10"],
    clusterDomain: "cluster.local",
    imageGc: { highThresholdPercent: 100, lowThresholdPercent: 80, minAgeMs: 120_000 },
    imagePulls: { ...DEFAULT_IMAGE_PULLS, registryQps: 0 },
    cgroups: { perQos: true, enforce: ["pods"], kubeReserved: { resources: {} }, systemReserved: { resources: {} }, podMaxPids: -1 },
    eviction: { ...DEFAULT_EVICTION, thresholds: [] }, // eviction by disk pressure is off, because the disk belongs to the user
  };
}

function factsOf(hostname: string): MachineFacts {
  return {
    hostname,
    ...{ os: "linux", architecture: "amd64", kernelVersion: "memory", osImage: "in memory" },
    ...{ machineId: hostname, systemUuid: hostname, bootId: hostname, runningInUserNamespace: false },
    resources: { cpuMilli: 8_000, memoryBytes: 16 * GIB, ephemeralStorageBytes: 100 * GIB, pods: PODS_MAX },
  };
}
