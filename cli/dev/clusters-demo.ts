/** `deltaloop demo --clusters N`: one deployment serves N in-memory clusters, of which one does not answer for a while. */
import { UsageError } from "@deltaloop/base";
import { consoleLog } from "@deltaloop/base/output";
import { createInProcessKube } from "@deltaloop/api-server";
import { syncFunction } from "@deltaloop/controllers/registry";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { describeTrace } from "../explain/describe.ts";
import { counted } from "../output/counted.ts";
import { movesCursor, withProgress } from "../output/terminal.ts";
import { redrawn } from "./demo-view.ts";
import { startEmbeddedClusters } from "./embedded-clusters.ts";
import type { EmbeddedCluster, EmbeddedClusters } from "./embedded-clusters.ts";
import { LagMeter } from "./lag-meter.ts";
import { isRolledOut } from "./rollout.ts";
import type { Rollout } from "./rollout.ts";

const FRAME_MS = 100;
/** Maximum duration of a step, including the back-off after an outage. */
const STEP_MS_MAX = 60_000;
const NODES = 2;
const WEB = { resource: "deployments", namespace: "default", name: "web" } as const;
const REPLICAS = 3;
const ACTIVITY_LINES = 6;

export interface ClustersDemoFlags {
  readonly keep?: true;
  readonly verbose?: true;
}

export async function runClustersDemo(count: number, flags: ClustersDemoFlags): Promise<void> {
  const startedMs = Date.now();
  const names = Array.from({ length: count }, (_, i) => `cluster-${String(i + 1).padStart(String(count).length, "0")}`);
  const lags = new Map(names.map((name) => [name, new LagMeter()]));
  const totals = { invocations: 0, syncs: 0, pods: 0 };
  const activity: string[] = [];
  const starting = startEmbeddedClusters({
    ...{ names, nodes: NODES },
    logOf: (cluster) => consoleLog(cluster === undefined ? "" : `${cluster}: `, flags.verbose ? "info" : "error"),
    onInvocation: () => totals.invocations++,
    onSync(cluster, sync) {
      totals.syncs++;
      activity.push(...described(cluster, sync, startedMs));
    },
    onChanges: (cluster, items) => lags.get(cluster)?.changes(items),
  });
  const embedded = await withProgress(`Starting ${count} in-memory clusters`, starting);
  for (const { name, server } of embedded.clusters)
    server.onRequest((record) => {
      lags.get(name)?.request(record);
      if (record.resource === "pods" && record.verb === "create" && record.subresource === "" && record.status === 201) totals.pods++;
    });
  await embedded.ready();
  const view = clustersView(process.stdout, activity);
  view.say(
    `Ready after ${seconds(Date.now() - startedMs)}: ${count} in-memory API servers, one watcher process, one set of functions, queue fauxqs, store ${embedded.storeName}.`,
  );
  const demo = new ClustersDemo(embedded, view);
  const [outage, ...others] = embedded.clusters;
  if (outage === undefined) throw new UsageError("--clusters: write a number from 2");
  await demo.step(`create Deployment web with ${REPLICAS} replicas of web:v1 in each cluster`, embedded.clusters, create);
  await outage.pause();
  await demo.step(`${outage.name} does not answer; roll web to image web:v2 in the others`, others, setImage);
  await setImage(outage);
  await demo.step(`${outage.name} is reachable again and rolls out web:v2`, [outage], async () => await outage.resume());
  const all = [...lags.values()].flatMap(({ lagsMs }) => lagsMs).toSorted((a, b) => a - b);
  const writes = [...lags.values()].reduce((sum, lag) => sum + lag.writes, 0);
  const at = (share: number): string => String(all[Math.min(all.length - 1, Math.floor(all.length * share))] ?? "-");
  view.say(
    `\nDone in ${seconds(Date.now() - startedMs)}: ${totals.syncs} syncs in ${totals.invocations} function invocations made ${writes} writes and ${totals.pods} pods; ` +
      `from event to write p50 ${at(0.5)} ms, p99 ${at(0.99)} ms.`,
  );
  if (flags.keep) await keep(embedded, view);
  await embedded.stop();
}

interface ClustersView {
  show(step: string, rows: readonly Row[]): void;
  say(line: string): void;
}

interface Row {
  readonly name: string;
  readonly rollout: Rollout | undefined;
  readonly isDone: boolean;
}

class ClustersDemo {
  readonly #embedded: EmbeddedClusters;
  readonly #view: ClustersView;

  constructor(embedded: EmbeddedClusters, view: ClustersView) {
    this.#embedded = embedded;
    this.#view = view;
  }

  /** Acts in each of `clusters`, and shows progress until their rollouts are complete. */
  async step(what: string, clusters: readonly EmbeddedCluster[], act: (cluster: EmbeddedCluster) => Promise<unknown>): Promise<void> {
    const startedMs = Date.now();
    this.#view.say(`\n> ${what}`);
    await Promise.all(clusters.map(act));
    for (;;) {
      const rows = this.#embedded.clusters.map(rowOf);
      this.#view.show(what, rows);
      if (clusters.every(({ name }) => rows.some((row) => row.name === name && row.isDone))) break;
      if (Date.now() - startedMs > STEP_MS_MAX)
        throw new Error(`"${what}" is not complete after ${seconds(STEP_MS_MAX)}; run it with --verbose to see why`);
      await new Promise((resolve) => setTimeout(resolve, FRAME_MS));
    }
    this.#view.say(`  complete in ${counted(clusters.length, "cluster")} after ${seconds(Date.now() - startedMs)}`);
  }
}

function rowOf({ name, server }: EmbeddedCluster): Row {
  const rollout = server.peek("deployments.apps", WEB.namespace, WEB.name) as unknown as Rollout | undefined; // the object is a Deployment
  return { name, rollout, isDone: rollout !== undefined && isRolledOut(rollout) };
}

async function create({ server }: EmbeddedCluster): Promise<unknown> {
  const labels = { app: WEB.name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "web", image: "web:v1" }], terminationGracePeriodSeconds: 1 } };
  const spec = { replicas: REPLICAS, selector: { matchLabels: labels }, template };
  const body = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: WEB.name }, spec };
  return await kubeOf(server).create({ resource: WEB.resource, namespace: WEB.namespace, body });
}

async function setImage({ server }: EmbeddedCluster): Promise<unknown> {
  const body = { spec: { template: { spec: { containers: [{ name: "web", image: "web:v2" }] } } } };
  return await kubeOf(server).patch({ ...WEB, type: "application/strategic-merge-patch+json", body });
}

function kubeOf(server: EmbeddedCluster["server"]): ReturnType<typeof createInProcessKube> {
  return createInProcessKube(server, { component: "demo" });
}

function described(cluster: string, sync: ReplayedSync, startedMs: number): readonly string[] {
  const at = ((sync.atMs - startedMs) / 1_000).toFixed(2).padStart(6);
  return sync.lines
    .filter(({ kind }) => kind === "decided")
    .map(
      (line) =>
        `${at} ${cluster} ${syncFunction(sync.controller).padEnd(15)} ${sync.key.replace(/^default\//, "")}: ${describeTrace(line)}`,
    );
}

/** A row per cluster that is redrawn on a terminal; elsewhere a line whenever another cluster is complete. */
function clustersView(out: NodeJS.WriteStream, activity: readonly string[]): ClustersView {
  if (movesCursor(out)) {
    const { draw, say } = redrawn(out);
    return {
      say,
      show(step, rows) {
        const lines = activity.slice(-ACTIVITY_LINES).map((line) => `  ${line}`);
        draw(["", step, "", ...rows.map(rowText), "", "Activity of the functions", ...lines]);
      },
    };
  }
  let last = "";
  return {
    show(_step, rows) {
      const state = `${rows.filter(({ isDone }) => isDone).length} of ${rows.length} clusters complete`;
      if (state !== last) out.write(`  ${state}\n`);
      last = state;
    },
    say: (line) => void out.write(`${line}\n`),
  };
}

function rowText({ name, rollout, isDone }: Row): string {
  const { replicas = 0, updatedReplicas = 0, availableReplicas = 0 } = rollout?.status ?? {};
  const desired = rollout?.spec.replicas ?? 0;
  return `  ${name}  ${"●"
    .repeat(availableReplicas)
    .padEnd(Math.max(desired, replicas), "○")
    .padEnd(2 * REPLICAS)}  ${updatedReplicas}/${desired} updated, ${availableReplicas} available${isDone ? "" : " …"}`;
}

async function keep({ folder }: EmbeddedClusters, view: ClustersView): Promise<void> {
  view.say(`
The clusters run until Ctrl-C. In another terminal:
  for file in ${folder}/*.yaml; do kubectl --kubeconfig $file get deployments; done`);
  await new Promise<never>(() => undefined); // until a signal
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
