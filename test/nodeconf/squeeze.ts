/**
 * Runs one node-pressure test (squeezes.ts) on one side and returns its outcome: the order of evictions, their statuses and Events, the
 * Node's conditions meanwhile, and the remaining images.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { startContainerd } from "../containerd/containerd.ts";
import { eventually } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { isReady } from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import { startAgent } from "../harness/node-processes/compared-node.ts";
import { imagesOf, isEvicted, nameOf, nodeEvents, podsOf, saidOf, watch } from "./squeeze-outcome.ts";
import type { Outcome } from "./squeeze-outcome.ts";
import type { Agent, JudgedNodeOptions, Side } from "../harness/node-processes/compared-node.ts";
import { calm, filler } from "./squeezes.ts";
import type { EvictionSettings, Squeeze } from "./squeezes.ts";

const READY_MS_MAX = 90_000;
/** The kubelet and containerd measure directories and layers about every 10 s. */
const MEASURED_MS = 30_000;
const EVICTED_MS_MAX = 120_000;
/** Time without further evictions before the outcome is read; more than one 10 s eviction interval. */
const QUIET_MS = 18_000;

export async function runSqueeze(
  cluster: Cluster,
  side: Side,
  squeeze: Squeeze,
  settings: EvictionSettings,
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
    const options = (told: EvictionSettings): JudgedNodeOptions => ({ name: side, manifests, ...optionsOf(told) });
    await makeNamespace(cluster, side);
    agent = await startAgent(cluster, side, containerd, programs, options(squeeze.afterRestart ? calm() : settings));
    const placed = squeeze.pods.map((pod) => place(pod, side));
    const watching = watch(cluster, side);
    await cluster.apply(...placed);
    const names = [...squeeze.pods, ...(squeeze.statics ?? [])].map(plainName);
    await areAtWork(cluster, side, names);
    if (squeeze.strike !== undefined) await sleep(MEASURED_MS);
    const from = performance.now();
    if (squeeze.afterRestart) {
      await agent.end();
      agent = await startAgent(cluster, side, containerd, programs, options(settings));
    }
    for (const name of squeeze.ends ?? []) await cluster.kubectl("delete", "pod", name, "--namespace", side);
    await squeeze.strike?.(containerd);
    const arriving = squeeze.arrive ?? [];
    await cluster.apply(...arriving.map((pod) => place(pod, side)));
    await areAtWork(cluster, side, arriving.map(plainName));
    // Times out silently: the comparison then reports the missing evictions.
    await eventually("pods go", () => watching.order.length >= squeeze.evicted, EVICTED_MS_MAX).catch(() => undefined);
    await sleep(squeeze.quietMs ?? QUIET_MS);
    const { order, node, firstAtMs } = await watching.stop();
    return {
      order: squeeze.atOnce ? order.toSorted() : order,
      said: Object.fromEntries(await Promise.all(order.toSorted().map(async (name) => [name, await saidOf(cluster, side, name)]))),
      node: node.toSorted(),
      nodeEvents: await nodeEvents(cluster, side),
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

const plainName = (pod: object): string => (pod as PodView).metadata.name;

/** Waits until every named pod is ready or evicted. */
async function areAtWork(cluster: Cluster, side: Side, names: readonly string[]): Promise<void> {
  await eventually(
    `${names.join()} of ${side} are at work`,
    async () => {
      const seen = await podsOf(cluster, side);
      const missing = names.filter((name) => !seen.some((pod) => nameOf(pod, side) === name && (isReady(pod) || isEvicted(pod))));
      if (missing.length === 0) return true;
      throw new Error(`not yet: ${missing.join()}: ${JSON.stringify(seen.find((pod) => nameOf(pod, side) === missing[0])?.status)}`);
    },
    READY_MS_MAX,
  );
}

/**
 * Deletes everything of this side, because the next test uses the same names. kubectl errors are ignored, so that an earlier error is the
 * one that is thrown.
 */
async function tidy(cluster: Cluster, side: Side): Promise<void> {
  const force = ["--ignore-not-found", "--force", "--grace-period=0"];
  await cluster.kubectl("delete", "pods", "--all", "--namespace", side, ...force);
  await cluster.kubectl("delete", "pod", `static-${side}`, ...force);
  await cluster.kubectl("delete", "namespace", side, "--ignore-not-found", "--timeout=60s");
  await cluster.kubectl("delete", "events", "--field-selector", `involvedObject.name=${side}`);
}

/**
 * Returns the eviction settings as kubelet configuration and as flags of `deltaloop node`. Always sets evictionHard, because a kubelet
 * without it applies its default thresholds.
 */
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
  const { metadata, spec } = pod as { readonly metadata: object; readonly spec: object }; // has the shape that podOf returns
  return { ...pod, metadata: { ...metadata, namespace: side }, spec: { nodeName: side, ...spec } };
}
