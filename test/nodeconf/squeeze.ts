/**
 * One squeeze (squeezes.ts) on one side, and what was to be seen of it: who went in which order, what was said of it, what the Node said
 * meanwhile, and which images are left.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { createCri } from "../../shared/adapters/cri/cri.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { IMAGES } from "../containerd/images.ts";
import { eventually } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { isReady } from "../support/real-pods.ts";
import type { PodView } from "../support/real-pods.ts";
import { startAgent } from "./node.ts";
import type { Agent, JudgedNodeOptions, Side } from "./node.ts";
import { calm, filler } from "./squeezes.ts";
import type { EvictionSettings, Squeeze } from "./squeezes.ts";

export interface Outcome {
  /** Pods in the order in which they went. */
  readonly order: readonly string[];
  /** Of each of them, what its status and its Events say. */
  readonly said: Readonly<Record<string, readonly string[]>>;
  /** Pressures and taints that the Node had, and what its Events say. */
  readonly node: readonly string[];
  /** Pods that run on. */
  readonly stay: readonly string[];
  /** Without the sandboxes' own. */
  readonly images: readonly string[];
  /** How long the first of them was left alone after all was at work, in seconds: not compared. */
  readonly firstAfter?: number;
}

const READY_MS_MAX = 90_000;
/** Directories and layers are measured each ten seconds or so, by kubelet and containerd. */
const MEASURED_MS = 30_000;
const EVICTED_MS_MAX = 120_000;
/** A look and a half. */
const QUIET_MS = 18_000;
const POLL_MS = 500;

export async function runSqueeze(
  cluster: Cluster,
  side: Side,
  squeeze: Squeeze,
  programs: { readonly kubelet: string; readonly deltaloop?: string },
): Promise<Outcome> {
  const containerd = await startContainerd(squeeze.containerd);
  let agent: Agent | undefined;
  try {
    for (const name of squeeze.images ?? [])
      await containerd.importImages([{ name, entries: [{ kind: "file", name: "filler", content: filler(10) }], entrypoint: ["/filler"] }]);
    const manifests = join(containerd.directory, "manifests");
    await mkdir(manifests);
    for (const one of squeeze.statics ?? []) await writeFile(join(manifests, "static.json"), JSON.stringify(one));
    const settings = await squeeze.settings();
    const options = (told: EvictionSettings): JudgedNodeOptions => ({ name: side, manifests, ...optionsOf(told) });
    await makeNamespace(cluster, side);
    agent = await startAgent(cluster, side, containerd, programs, options(squeeze.afterRestart ? calm() : settings));
    const placed = squeeze.pods.map((pod) => place(pod, side));
    const watching = watch(cluster, side);
    await cluster.apply(...placed);
    const names = [...squeeze.pods, ...(squeeze.statics ?? [])].map((pod) => (pod as PodView).metadata.name);
    await eventually(
      `all pods of ${side} are at work`,
      async () => {
        const seen = await podsOf(cluster, side);
        const missing = names.filter((name) => !seen.some((pod) => nameOf(pod, side) === name && (isReady(pod) || isEvicted(pod))));
        if (missing.length === 0) return true;
        throw new Error(`not yet: ${missing.join()}: ${JSON.stringify(seen.find((pod) => nameOf(pod, side) === missing[0])?.status)}`);
      },
      READY_MS_MAX,
    );
    if (squeeze.strike !== undefined) await sleep(MEASURED_MS);
    const from = performance.now();
    if (squeeze.afterRestart) {
      await agent.end();
      agent = await startAgent(cluster, side, containerd, programs, options(settings));
    }
    for (const name of squeeze.ends ?? []) await cluster.kubectl("delete", "pod", name, "--namespace", side);
    await squeeze.strike?.(containerd);
    // What went when time is up is what is compared.
    await eventually("pods go", () => watching.order.length >= squeeze.evicted, EVICTED_MS_MAX).catch(() => undefined);
    await sleep(squeeze.quietMs ?? QUIET_MS);
    const { order, node, firstAtMs } = await watching.stop();
    return {
      order: squeeze.atOnce ? order.toSorted() : order,
      said: Object.fromEntries(await Promise.all(order.map(async (name) => [name, await saidOf(cluster, side, name)]))),
      node: [...node.toSorted(), ...(await nodeEvents(cluster, side))],
      stay: (await podsOf(cluster, side))
        .filter((pod) => !isEvicted(pod))
        .map((pod) => `${nameOf(pod, side)} ${pod.status.phase} ${pod.status.reason ?? ""}`.trim())
        .toSorted(),
      images: await imagesOf(containerd),
      ...(firstAtMs !== undefined && { firstAfter: (firstAtMs - from) / 1000 }),
    };
  } catch (error) {
    process.stderr.write(`${side}: ${String(error)}: ${String((error as Error).cause ?? "")}\n`);
    if (agent !== undefined) process.stderr.write(`${side} said last:\n${(await agent.log()).split("\n").slice(-60).join("\n")}\n`);
    throw error;
  } finally {
    await agent?.stop();
    await containerd.stop();
    await tidy(cluster, side);
  }
}

/** So that the next one of that name begins anew. What was wrong before is what is thrown. */
async function tidy(cluster: Cluster, side: Side): Promise<void> {
  const force = ["--ignore-not-found", "--force", "--grace-period=0"];
  await cluster.kubectl("delete", "pods", "--all", "--namespace", side, ...force);
  await cluster.kubectl("delete", "pod", `static-${side}`, ...force);
  await cluster.kubectl("delete", "namespace", side, "--ignore-not-found", "--timeout=60s");
  await cluster.kubectl("delete", "events", "--field-selector", `involvedObject.name=${side}`);
}

/** A kubelet takes all but what is free for a threshold that it is given none of. */
function optionsOf({
  hard = { "memory.available": "1Mi" },
  soft,
  softGracePeriod,
  minimumReclaim,
  maxPodGracePeriodSeconds,
  imageGc,
}: EvictionSettings): JudgedNodeOptions {
  const joined = (statements: object, by: string): string =>
    Object.entries(statements)
      .map((pair) => pair.join(by))
      .join(",");
  return {
    configuration: {
      enforceNodeAllocatable: ["pods"],
      volumeStatsAggPeriod: "10s",
      evictionHard: hard,
      evictionPressureTransitionPeriod: "10s",
      ...(soft && { evictionSoft: soft, evictionSoftGracePeriod: softGracePeriod }),
      ...(minimumReclaim && { evictionMinimumReclaim: minimumReclaim }),
      ...(maxPodGracePeriodSeconds !== undefined && { evictionMaxPodGracePeriod: maxPodGracePeriodSeconds }),
      ...(imageGc && {
        imageGCHighThresholdPercent: imageGc.high,
        imageGCLowThresholdPercent: imageGc.low,
        imageMinimumGCAge: imageGc.minimumAge,
      }),
    },
    flags: [
      ...["--eviction-hard", joined(hard, "<"), "--eviction-pressure-transition-period", "10s"],
      ...(soft && softGracePeriod
        ? ["--eviction-soft", joined(soft, "<"), "--eviction-soft-grace-period", joined(softGracePeriod, "=")]
        : []),
      ...(minimumReclaim ? ["--eviction-minimum-reclaim", joined(minimumReclaim, "=")] : []),
      ...(maxPodGracePeriodSeconds === undefined ? [] : ["--eviction-max-pod-grace-period", String(maxPodGracePeriodSeconds)]),
      ...(imageGc
        ? [
            "--image-gc-high-threshold",
            String(imageGc.high),
            "--image-gc-low-threshold",
            String(imageGc.low),
            "--minimum-image-ttl-duration",
            imageGc.minimumAge,
          ]
        : []),
    ],
  };
}

async function makeNamespace(cluster: Cluster, name: string): Promise<void> {
  await cluster.kubectl("create", "namespace", name);
  await eventually("its service account", () => cluster.get(`/api/v1/namespaces/${name}/serviceaccounts/default`));
}

function place(pod: object, side: Side): object {
  const { metadata, spec } = pod as { readonly metadata: object; readonly spec: object }; // as podOf makes them
  return { ...pod, metadata: { ...metadata, namespace: side }, spec: { nodeName: side, ...spec } };
}

/** Of a static pod without the node's. */
function nameOf({ metadata: { name } }: PodView, side: Side): string {
  return name.replace(new RegExp(`-${side}$`, "u"), "");
}

function isEvicted({ status }: PodView): boolean {
  return status.reason === "Evicted";
}

async function podsOf(cluster: Cluster, side: Side): Promise<readonly PodView[]> {
  const [own, statics] = await Promise.all(
    [side, "default"].map((namespace) => cluster.list<PodView>(`/api/v1/namespaces/${namespace}/pods`)),
  );
  return [...(own ?? []), ...(statics ?? [])].filter(({ spec }) => spec.nodeName === side);
}

interface NodeView {
  readonly spec: { readonly taints?: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: {
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly reason: string; readonly message: string }[];
  };
}

interface Watched {
  readonly order: readonly string[];
  readonly node: readonly string[];
  readonly firstAtMs?: number;
}

/** Looks twice a second. */
function watch(cluster: Cluster, side: Side): { readonly order: readonly string[]; stop(): Promise<Watched> } {
  const order: string[] = [];
  const node = new Set<string>();
  let firstAtMs: number | undefined;
  let isOver = false;
  const look = async (): Promise<void> => {
    const gone = (await podsOf(cluster, side)).filter(isEvicted).map((pod) => nameOf(pod, side));
    for (const name of gone.toSorted()) if (!order.includes(name)) order.push(name);
    if (order.length > 0) firstAtMs ??= performance.now();
    const seen = await cluster.get<NodeView>(`/api/v1/nodes/${side}`);
    for (const { type, status, reason, message } of seen?.status.conditions ?? [])
      if (type.endsWith("Pressure") && status === "True") node.add(`condition ${type} ${reason}: ${message}`);
    for (const { key, effect } of seen?.spec.taints ?? []) if (key.endsWith("pressure")) node.add(`taint ${key}:${effect}`);
  };
  const running = (async () => {
    while (!isOver) {
      await look().catch(() => undefined); // the next look tries again
      await sleep(POLL_MS);
    }
  })();
  return {
    order,
    async stop() {
      isOver = true;
      await running;
      return { order, node: [...node], ...(firstAtMs !== undefined && { firstAtMs }) };
    },
  };
}

interface EventView {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly involvedObject: { readonly name: string; readonly kind: string };
}

/** What differs from one run to the next is left out: what was free, and what was used. */
function shape(text: string): string {
  return text.replaceAll(/(available: |was using )[\d.]+[A-Za-z]*/gu, "$1N");
}

async function saidOf(cluster: Cluster, side: Side, name: string): Promise<readonly string[]> {
  const pod = await cluster.get<PodView>(`/api/v1/namespaces/${side}/pods/${name}`);
  const events = await cluster.list<EventView>(`/api/v1/namespaces/${side}/events`);
  const { phase, reason, message = "", conditions = [], containerStatuses = [] } = pod?.status ?? { phase: "gone" };
  const disruption = conditions.find(({ type }) => type === "DisruptionTarget");
  return [
    shape(`status ${phase} ${reason ?? ""}: ${message}`),
    ...(disruption === undefined ? [] : [shape(`condition DisruptionTarget ${disruption.reason ?? ""}: ${disruption.message ?? ""}`)]),
    ...containerStatuses.map(
      ({ name: container, state }) => `container ${container} ${state.terminated?.reason ?? "?"} ${state.terminated?.exitCode ?? "?"}`,
    ),
    ...events
      .filter((event) => event.involvedObject.name === name && event.reason === "Evicted")
      .map(({ type, message: text, metadata: { annotations = {} } }) => {
        const { offending_containers_usage: usage, ...fixed } = annotations;
        return shape(
          `event ${type} Evicted: ${text} ${JSON.stringify(Object.entries({ ...fixed, usages: usage?.split(",").length }).toSorted())}`,
        );
      }),
  ];
}

const TOLD = /HasInsufficient|HasDiskPressure|EvictionThreshold|FreeDisk|ImageGC|ContainerGC|InvalidDisk/u;

async function nodeEvents(cluster: Cluster, side: Side): Promise<readonly string[]> {
  const all = await cluster.list<EventView>("/api/v1/events");
  const own = all.filter(({ involvedObject: { kind, name }, reason }) => kind === "Node" && name === side && TOLD.test(reason));
  return [
    ...new Set(own.map(({ type, reason, message }) => shape(`event ${type} ${reason}: ${message}`).replaceAll(side, "SIDE"))),
  ].toSorted();
}

async function imagesOf(containerd: ContainerdNode): Promise<readonly string[]> {
  const cri = createCri(containerd.endpoint);
  try {
    const all = (await cri.listImages()).flatMap(({ repoTags }) => repoTags);
    return all.filter((name) => name !== IMAGES.pause).toSorted();
  } finally {
    cri.close();
  }
}
