/** The observed outcome of a node-pressure test (squeeze.ts): the pods, the Node's conditions and the remaining images. */
import { setTimeout as sleep } from "node:timers/promises";

import { createCri } from "../../shared/node-agent/cri/cri.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { IMAGES } from "../containerd/images.ts";
import type { Cluster } from "../support/e2e.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import type { Side } from "../harness/node-processes/compared-node.ts";

export interface Outcome {
  /** Names of evicted and preempted pods, in the order of their eviction. */
  readonly order: readonly string[];
  /** The status and Events of each evicted pod, by its name. */
  readonly said: Readonly<Record<string, readonly string[]>>;
  /** Pressure conditions and taints that the Node had. */
  readonly node: readonly string[];
  /** Pods that were not evicted, with their phase. */
  readonly stay: readonly string[];
  /** Images that remain on the node, except the sandbox image. */
  readonly images: readonly string[];
  /**
   * The Node's Events and their counts; not compared. A kubelet emits a DNS Event on its Node for each pod, and its event spam filter
   * passes 25 Events at once, so Events about evictions may be dropped.
   */
  readonly nodeEvents: readonly string[];
  /** Seconds from the start of the pressure to the first eviction; not compared. */
  readonly firstAfter?: number;
}

const POLL_MS = 500;
/** Status reasons of a pod that the node evicted or preempted. */
const REASONS: ReadonlySet<string> = new Set(["Evicted", "Preempting"]);

/** Returns the pod's name; for a static pod, without the suffix that names the node. */
export function nameOf({ metadata: { name } }: PodView, side: Side): string {
  return name.replace(new RegExp(`-${side}$`, "u"), "");
}

export function isEvicted({ status }: PodView): boolean {
  return REASONS.has(status.reason ?? "");
}

export async function podsOf(cluster: Cluster, side: Side): Promise<readonly PodView[]> {
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

/** Polls pods and Node every 500 ms until `stop`. */
export function watch(cluster: Cluster, side: Side): { readonly order: readonly string[]; stop(): Promise<Watched> } {
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
      await look().catch(() => undefined); // the next poll tries again
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
  readonly count?: number;
  readonly reason: string;
  readonly message: string;
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly involvedObject: { readonly name: string; readonly kind: string };
}

/** Replaces the amounts that differ between runs (available and used resources) by N. */
function shape(text: string): string {
  return text.replaceAll(/(available: |was using )[\d.]+[A-Za-z]*/gu, "$1N");
}

export async function saidOf(cluster: Cluster, side: Side, name: string): Promise<readonly string[]> {
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
      .filter((event) => event.involvedObject.name === name && REASONS.has(event.reason))
      .map(({ type, reason: why, message: text, metadata: { annotations = {} } }) => {
        const { offending_containers_usage: usage, ...fixed } = annotations;
        return shape(
          `event ${type} ${why}: ${text} ${JSON.stringify(Object.entries({ ...fixed, usages: usage?.split(",").length }).toSorted())}`,
        );
      }),
  ];
}

export async function nodeEvents(cluster: Cluster, side: Side): Promise<readonly string[]> {
  const all = await cluster.list<EventView>("/api/v1/events");
  const own = all.filter(({ involvedObject: { kind, name } }) => kind === "Node" && name === side);
  return own.map(({ reason, message, count = 1 }) => shape(`${reason} ×${count}: ${message}`)).toSorted();
}

export async function imagesOf(containerd: ContainerdNode): Promise<readonly string[]> {
  const cri = createCri(containerd.endpoint);
  try {
    const all = (await cri.listImages()).flatMap(({ repoTags }) => repoTags);
    return all.filter((name) => name !== IMAGES.pause).toSorted();
  } finally {
    cri.close();
  }
}
