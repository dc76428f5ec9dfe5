/**
 * Events and statuses of image pulls: `deltaloop node` compared with upstream's kubelet. Both run the same pods on the same machine, one
 * after the other, each on a real containerd with the test's own registry.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { ensureContainerd } from "../containerd/programs.ts";
import { startRegistry } from "../containerd/registry.ts";
import type { TestRegistry } from "../containerd/registry.ts";
import { NAME, startJudgedNode } from "../harness/node-processes/compared-node.ts";
import type { Side } from "../harness/node-processes/compared-node.ts";
import { eventually, measured, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { podOf, podReady } from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { UpstreamTests } from "../upstream/program.ts";
import { lineOf } from "../../shared/kube/client/kube.ts";

const SECONDS = 1_000;
/** Maximum number of compared reasons per container; later ones repeat. */
const REASONS_MAX = 5;
const NAMES = ["good", "missing", "misnamed"] as const;

const missing = ensureContainerd();
const built = missing === undefined ? await upstreamTests() : { missing };
const title = "image pulls beside the kubelet";
if ("missing" in built) await whereRealPartsAre(title, () => undefined, built);
else await whereRealPartsAre(title, () => suite(built));

function suite(upstream: UpstreamTests): void {
  let cluster: Cluster;
  let registry: TestRegistry;
  beforeAll(async () => {
    registry = await startRegistry();
    await registry.add("good", SECONDS);
    cluster = await startCluster({ machines: "scheduler" });
  });
  afterAll(async () => {
    await cluster?.stop();
    await registry?.stop();
  });

  const pods = (): readonly object[] => {
    const [good, none] = [registry.image("good"), registry.image("missing")];
    const of = (name: (typeof NAMES)[number], ...containers: readonly object[]): object =>
      podOf(name, { nodeName: NAME, automountServiceAccountToken: false, dnsPolicy: "Default", containers });
    return [
      of("good", { name: "main", image: good }, { name: "again", image: good }),
      of("missing", { name: "main", image: none }, { name: "again", image: none }),
      of("misnamed", { name: "main", image: "Capital" }, { name: "never", image: registry.image("good-too"), imagePullPolicy: "Never" }),
    ];
  };

  const on = async (side: Side): Promise<Seen> => {
    const options = { configuration: { serializeImagePulls: true }, flags: ["--serialize-image-pulls"] };
    const node = await startJudgedNode(cluster, side, upstream, options);
    const ending = new AbortController();
    try {
      const reasons: Record<string, string[]> = {};
      const watched = followReasons(cluster, reasons, ending.signal);
      await cluster.apply(...pods());
      await podReady(cluster, "good");
      await eventually("it has backed off twice", async () => reasons["missing/main"]?.length === REASONS_MAX, 90 * SECONDS);
      ending.abort();
      await watched;
      const events = await eventsInOrder(cluster);
      measured(`${side}: ${JSON.stringify({ reasons, events })}`);
      return { reasons, events };
    } finally {
      ending.abort();
      await cluster.kubectl("delete", "pods", "--all", "--wait=true", "--timeout=60s");
      await cluster.kubectl("delete", "events", "--all");
      await node.stop();
    }
  };
  it("[node-agent 248] three pods wait for the same reasons in the same order as with the kubelet, with the same Events", async () => {
    const theirs = await on("kubelet");
    const ours = await on("ours");
    expect(ours.reasons).toEqual(theirs.reasons);
    expect(ours.events).toEqual(theirs.events);
    expect(Object.values(ours.events).flat().length).toBeGreaterThan(15);
  });
}

interface Seen {
  /** The waiting reasons of each container, in order. */
  readonly reasons: Readonly<Record<string, readonly string[]>>;
  /** The Events of each pod without repetitions, in order of their first occurrence. */
  readonly events: Readonly<Record<string, readonly string[]>>;
}

/** Adds waiting reasons to `reasons` until `signal` aborts. */
async function followReasons(cluster: Cluster, reasons: Record<string, string[]>, signal: AbortSignal): Promise<void> {
  const query = { allowWatchBookmarks: false, timeoutSeconds: 300 };
  try {
    for await (const lines of cluster.client.watch("pods", query, signal))
      for (const line of lines) {
        const { object } = JSON.parse(lineOf(line)) as { readonly object: PodView }; // a watch of pods
        for (const { name, state } of object.status.containerStatuses ?? []) {
          const seen = (reasons[`${object.metadata.name}/${name}`] ??= []);
          const reason = state.waiting?.reason ?? (state.running === undefined ? "ended" : "running");
          if (seen.at(-1) !== reason && seen.length < REASONS_MAX) seen.push(reason);
        }
      }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

interface EventView {
  readonly metadata: { readonly name: string };
  readonly involvedObject: { readonly name: string; readonly fieldPath?: string };
  readonly type: string;
  readonly reason: string;
  readonly message: string;
}

/** Sorts Events by their names, which end with the time of the first occurrence in nanoseconds. Replaces times within messages. */
async function eventsInOrder(cluster: Cluster): Promise<Seen["events"]> {
  const nanos = ({ metadata }: EventView): bigint => BigInt(`0x${metadata.name.split(".").at(-1) ?? "0"}`);
  const all = (await cluster.list<EventView>("/api/v1/namespaces/default/events")).toSorted((a, b) => (nanos(a) < nanos(b) ? -1 : 1));
  return Object.fromEntries(
    NAMES.map((pod) => [
      pod,
      all
        .filter(({ involvedObject }) => involvedObject.name === pod)
        .map(({ involvedObject: { fieldPath = "" }, type, reason, message }) => {
          const timeless = message.replaceAll(/\b[\d.]+m?s\b/gu, "TIME");
          return `${fieldPath} ${type} ${reason}: ${timeless}`;
        }),
    ]),
  );
}
