/**
 * Node-pressure tests as data: resource shortages, and pods that differ in the criteria by which a kubelet ranks them. Both sides run the
 * same tests (squeeze.ts).
 */
import { randomBytes } from "node:crypto";
import { readFile, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { ContainerdNode, ContainerdOptions } from "../containerd/containerd.ts";
import { IMAGES } from "../containerd/images.ts";
import { podOf, server, shell } from "../harness/node-processes/pods.ts";

const MIB = 1024 ** 2;

/** Eviction thresholds by signal, as in a kubelet's configuration: `{ "memory.available": "99%" }`. */
type Statements = Readonly<Record<string, string>>;

export interface EvictionSettings {
  readonly hard?: Statements;
  readonly soft?: Statements;
  readonly softGracePeriod?: Statements;
  readonly minimumReclaim?: Statements;
  readonly maxPodGracePeriodSeconds?: number;
  readonly imageGc?: { readonly high: number; readonly low: number; readonly minimumAge: string };
}

export interface Squeeze {
  readonly name: string;
  readonly containerd?: ContainerdOptions;
  settings(): Promise<EvictionSettings>;
  /** Starts the node without pressure and applies the settings with a restart, once the pods run. */
  readonly afterRestart?: true;
  /** Images to import in addition to those that every test node has. */
  readonly images?: readonly string[];
  readonly pods: readonly object[];
  readonly statics?: readonly object[];
  /** Names of the pods that are deleted before `strike`. */
  readonly ends?: readonly string[];
  /** Causes the pressure; called once all pods run and have been measured. */
  readonly strike?: (containerd: ContainerdNode) => Promise<void>;
  /** Pods that are created after `strike` and must become ready or be evicted. */
  readonly arrive?: readonly object[];
  /** The expected number of evicted pods; the test then checks for `quietMs` that no other pod is evicted. */
  readonly evicted: number;
  /** Milliseconds without a further eviction before the test ends. */
  readonly quietMs?: number;
  /** Several pods are evicted between two polls, so the order is not compared. */
  readonly atOnce?: true;
  /** Runs the two sides one after the other, because the pressure of one side would affect the other. */
  readonly apart?: true;
}

export const PRIORITIES = { low: -10, high: 1_000 } as const;

/** A threshold that no test reaches, so that no pod is evicted. */
const CALM: EvictionSettings = { hard: { "memory.available": "1Mi" } };
export const calm = (): EvictionSettings => CALM;

const noToken = { automountServiceAccountToken: false };
const low = { priorityClassName: "low" };
const high = { priorityClassName: "high" };
const critical = { priorityClassName: "system-cluster-critical" };
/** Without it the node rejects a BestEffort pod while it has memory pressure. */
const tolerant = { tolerations: [{ key: "node.kubernetes.io/memory-pressure", operator: "Exists", effect: "NoSchedule" }] };
const asks = (resource: string, amount: string): object => ({ resources: { requests: { [resource]: amount } } });
/** Exits with 7 on SIGTERM: if all containers exit with 0, a kubelet reports Succeeded, even for an evicted pod. */
const STAY = 'trap "exit 7" TERM; sleep 3600 & wait';
const READY = `echo > /tmp/ready; ${STAY}`;
/** Ready when its script has completed, so that the pod has allocated everything. */
const whenDone = { readinessProbe: { exec: { command: ["cat", "/tmp/ready"] }, periodSeconds: 1 } };

function pod(name: string, script: string, spec: object = {}, container: object = {}): object {
  return podOf(name, { ...noToken, ...spec, containers: [shell("main", script, { ...whenDone, ...container })] });
}

/** Returns a command that writes a file of this size. */
function write(mib: number, file: string): string {
  return `/bin/busybox head -c ${mib * MIB} /dev/zero > ${file}`;
}

const onDisk = (medium?: string): object => ({ volumes: [{ name: "scratch", emptyDir: medium === undefined ? {} : { medium } }] });
const atScratch = { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] };
/** A pod that writes a file of this size into an emptyDir, which is a tmpfs if `medium` is Memory. */
function holding(name: string, mib: number, spec: object = {}, container: object = {}, medium?: string): object {
  const script = `${write(mib, "/scratch/file")}; ${READY}`;
  return pod(name, script, { ...onDisk(medium), ...spec }, { ...atScratch, ...container });
}

/** A pod that writes a file of this size into its container's writable layer. */
function layered(name: string, mib: number, spec: object = {}, container: object = {}): object {
  return pod(name, `${write(mib, "/file")}; ${READY}`, spec, container);
}

function withFiles(name: string, count: number, spec: object = {}): object {
  const script = `trap '' TERM; i=0; while [ $i -lt ${count} ]; do : > /scratch/$i; i=$((i + 1)); done; echo > /tmp/ready; while :; do sleep 1; done`;
  return pod(name, script, { ...onDisk(), terminationGracePeriodSeconds: 30, ...spec }, atScratch);
}

function withProcesses(name: string, count: number, spec: object = {}): object {
  return pod(name, `i=1; while [ $i -lt ${count} ]; do sleep 3600 & i=$((i + 1)); done; ${READY}`, spec);
}

function limited(name: string, spec: object): object {
  return podOf(name, { ...noToken, ...spec });
}
const storageLimit = (limit: string): object => ({ resources: { limits: { "ephemeral-storage": limit } } });
const sized = { volumes: [{ name: "scratch", emptyDir: { sizeLimit: "1Mi" } }] };
const fills = `${write(4, "/scratch/file")}; ${STAY}`;

const STATIC = podOf("static", { containers: [shell("main", STAY)] });

/** Fills the file system until only this many MiB are free. */
async function leave(folder: string, mib: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  await writeFile(join(folder, "ballast"), Buffer.alloc(Math.max(0, bavail * bsize - mib * MIB), 1));
}

async function leaveInodes(folder: string, count: number): Promise<void> {
  const { ffree } = await statfs(folder);
  for (let i = 0; i < ffree - count; i++) await writeFile(join(folder, `ballast-${i}`), "");
}

/** Returns how many more processes and threads the machine can start. Source: pkg/kubelet/stats/pidlimit/pidlimit_linux.go. */
async function pidsAvailable(): Promise<number> {
  const [pidMax = "", threadsMax = "", load = ""] = await Promise.all(
    ["sys/kernel/pid_max", "sys/kernel/threads-max", "loadavg"].map((file) => readFile(`/proc/${file}`, "utf8")),
  );
  return Math.min(Number(pidMax), Number(threadsMax)) - Number(/\/(\d+)/u.exec(load)?.[1]);
}

const FILLER = "localhost/filler:1";
export const filler = (mib: number): Buffer => randomBytes(mib * MIB);

export const SQUEEZES: readonly Squeeze[] = [
  {
    name: "memory",
    settings: () => Promise.resolve({ hard: { "memory.available": "99%" } }),
    afterRestart: true,
    pods: [
      holding("within", 24, {}, asks("memory", "80Mi"), "Memory"),
      holding("above", 40, {}, asks("memory", "8Mi"), "Memory"),
      holding("besteffort", 16, tolerant, {}, "Memory"),
      holding("low", 4, low, asks("memory", "1Mi"), "Memory"),
      holding("high", 40, high, asks("memory", "1Mi"), "Memory"),
      holding("critical", 40, critical, asks("memory", "1Mi"), "Memory"),
    ],
    statics: [STATIC],
    evicted: 5,
  },
  {
    name: "nodefs",
    containerd: { agentDisk: { bytes: 128 * MIB } },
    settings: () => Promise.resolve({ hard: { "nodefs.available": "20Mi" }, minimumReclaim: { "nodefs.available": "4Mi" } }),
    pods: [
      holding("within", 16, {}, asks("ephemeral-storage", "40Mi")),
      holding("above", 12, {}, asks("ephemeral-storage", "1Mi")),
      holding("small", 4),
      holding("low", 4, low),
      holding("high", 16, high),
      holding("critical", 16, critical),
    ],
    statics: [STATIC],
    strike: ({ directory }) => leave(join(directory, "kubelet"), 6),
    evicted: 3,
  },
  {
    name: "imagefs",
    containerd: { diskBytes: 256 * MIB },
    settings: () => Promise.resolve({ hard: { "imagefs.available": "40Mi" }, imageGc: { high: 100, low: 99, minimumAge: "1s" } }),
    images: [FILLER],
    pods: [
      layered("within", 24, {}, asks("ephemeral-storage", "60Mi")),
      layered("above", 24, {}, asks("ephemeral-storage", "1Mi")),
      layered("small", 8),
      layered("low", 8, low),
      layered("high", 24, high),
      layered("critical", 24, critical),
    ],
    statics: [STATIC],
    strike: ({ directory }) => leave(join(directory, "root"), 4),
    evicted: 2,
  },
  {
    name: "pids",
    settings: async () => ({ hard: { "pid.available": String((await pidsAvailable()) - 700) } }),
    pods: [withProcesses("low", 3, low), withProcesses("many", 1_500), withProcesses("some", 9), withProcesses("high", 30, high)],
    statics: [STATIC],
    evicted: 2,
    apart: true,
  },
  {
    name: "soft inodes",
    containerd: { agentDisk: { bytes: 64 * MIB, inodes: 4_096 } },
    settings: () =>
      Promise.resolve({
        soft: { "nodefs.inodesFree": "1500" },
        softGracePeriod: { "nodefs.inodesFree": "20s" },
        maxPodGracePeriodSeconds: 4,
      }),
    pods: [withFiles("many", 600), withFiles("some", 50), withFiles("low", 100, low), withFiles("high", 700, high)],
    statics: [STATIC],
    strike: ({ directory }) => leaveInodes(join(directory, "kubelet"), 1_000),
    evicted: 2,
  },
  {
    name: "limits",
    settings: () => Promise.resolve(CALM),
    pods: [
      limited("empty-dir", { ...sized, containers: [shell("main", fills, atScratch)] }),
      limited("empty-dir-critical", { ...critical, ...sized, containers: [shell("main", fills, atScratch)] }),
      limited("pod", { containers: [shell("main", `${write(4, "/file")}; ${STAY}`, storageLimit("1Mi")), shell("side", STAY)] }),
      limited("container", {
        containers: [shell("main", `${write(4, "/file")}; ${STAY}`, storageLimit("1Mi")), shell("side", STAY, storageLimit("20Mi"))],
      }),
      limited("modest", { ...sized, containers: [shell("main", STAY, { ...atScratch, ...storageLimit("10Mi") })] }),
    ],
    statics: [podOf("static", { ...sized, containers: [shell("main", fills, atScratch)] })],
    evicted: 3,
    atOnce: true,
  },
  {
    // CPU requests exceed the capacity by 1.1 CPUs: BestEffort pods request none, and the Burstable pods request enough.
    name: "a critical pod",
    settings: () => Promise.resolve(CALM),
    pods: [
      limited("guaranteed", { containers: [shell("main", STAY, { resources: { limits: { cpu: "300m", memory: "16Mi" } } })] }),
      limited("small", { ...high, containers: [shell("main", STAY, asks("cpu", "100m"))] }),
      limited("middle", { ...low, containers: [shell("main", STAY, asks("cpu", "500m"))] }),
      limited("large", { ...high, containers: [shell("main", STAY, asks("cpu", "700m"))] }),
      limited("nothing", { containers: [shell("main", STAY)] }),
      limited("before", { ...critical, containers: [shell("main", STAY, asks("cpu", "100m"))] }),
    ],
    arrive: [limited("critical", { ...critical, containers: [shell("main", STAY, asks("cpu", "1400m"))] })],
    evicted: 2,
    atOnce: true,
  },
  {
    // An image that was never used is removed before one that was used once. The node checks every five minutes which images are in use.
    name: "collected images",
    containerd: { diskBytes: 256 * MIB },
    settings: () => Promise.resolve({ imageGc: { high: 85, low: 83, minimumAge: "1s" } }),
    afterRestart: true,
    images: [FILLER],
    pods: [
      podOf("used", { ...noToken, containers: [server()] }),
      podOf("uses", { ...noToken, containers: [server({ image: IMAGES.serverV2 }), shell("side", STAY)] }),
    ],
    ends: ["used"],
    strike: async ({ directory }) => leave(join(directory, "root"), (await sizeMib(join(directory, "root"))) * 0.17 - 8),
    evicted: 0,
    quietMs: 330_000,
  },
];

async function sizeMib(folder: string): Promise<number> {
  const { blocks, bsize } = await statfs(folder);
  return (blocks * bsize) / MIB;
}
