/**
 * `deltaloop demo`: the functions create, scale and roll a Deployment while the leading watcher is stopped; with embedded components, in a
 * few seconds.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { UsageError, wholeNumber } from "@deltaloop/base";
import { withDetails } from "./command/help.ts";
import type { KubeObject } from "@deltaloop/kube/objects";
import { createClient, createWatch } from "@deltaloop/kube/http";
import { createInProcessKube } from "@deltaloop/api-server";
import { syncFunction } from "@deltaloop/controllers/registry";
import { SyncLog } from "@deltaloop/replay/sync-log";
import type { ReplayedSync } from "@deltaloop/replay/sync-log";
import { consoleLog } from "@deltaloop/base/output";
import { deploymentLine, demoView } from "./dev/demo-view.ts";
import type { DemoView, ReplicaSetLine } from "./dev/demo-view.ts";
import { describeTrace } from "./explain/describe.ts";
import type { LivePage } from "./explain/timeline/open-page.ts";
import { startEmbedded } from "./dev/embedded.ts";
import { embeddedKubeconfig } from "./dev/embedded-kubeconfig.ts";
import type { Embedded } from "./dev/embedded.ts";
import { LagMeter } from "./dev/lag-meter.ts";
import { createOwnFolder } from "@deltaloop/local/processes";
import { withProgress } from "./output/terminal.ts";
import { isRolledOut, updatedOf } from "./dev/rollout.ts";
import type { Rollout } from "./dev/rollout.ts";

interface DemoFlags {
  readonly clusters?: number;
  readonly keep?: true;
  readonly realAgent?: true;
  readonly verbose?: true;
  readonly open?: true;
}

const FRAME_MS = 100;
const STEP_MS_MAX = 20_000;
/** Time to flush the output. */
const EXIT_AFTER_MS = 100;
const NODES = 3;
const WATCHERS = 2;
const WEB = { resource: "deployments", namespace: "default", name: "web" } as const;

export function registerDemo(program: Command): void {
  withDetails(
    program
      .command("demo")
      .description("Creates, scales and rolls a Deployment on an in-memory cluster.")
      .option("--keep", "keep the cluster running afterwards and print how to use it with kubectl")
      .option("--real-agent", "run the node agent on each node, with an in-memory container runtime, instead of scripted nodes")
      .option("--open", "serve a live view of the demo on a local web page until Ctrl-C")
      .option("--clusters <n>", "serve several clusters at once", wholeNumber("--clusters", { min: 2, max: 200 }))
      .option("-v, --verbose", "print the log of the watchers and the functions")
      .action(async (flags: DemoFlags) => {
        // Folders and Redis of this process are removed at its exit. A signal is not an error.
        for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(0));
        // Long polls may keep sockets open; an error is printed first.
        await runDemo(flags).finally(() => setTimeout(() => process.exit(), EXIT_AFTER_MS).unref());
      }),
    { examples: ["demo", "demo --keep --real-agent", "demo --clusters 20"] },
  );
}

async function runDemo(flags: DemoFlags): Promise<void> {
  if (flags.clusters !== undefined) {
    const one = flags.realAgent ? "--real-agent" : flags.open ? "--open" : undefined;
    if (one !== undefined) throw new UsageError(`${one} applies to one cluster: remove it, or remove --clusters`);
    const { runClustersDemo } = await import("./dev/clusters-demo.ts");
    return await runClustersDemo(flags.clusters, flags);
  }
  const view = demoView(process.stdout);
  const lag = new LagMeter();
  const startedMs = Date.now();
  const activity: string[] = [];
  const totals = { invocations: 0, pods: 0 };
  let page: LivePage | undefined;
  const syncs = new SyncLog((sync) => {
    activity.push(...describeSync(sync, startedMs));
    page?.sync(sync);
  }, Date.now);
  const tell = (who: string, what: string): void => void activity.push(activityLine(Date.now() - startedMs, who, what));
  let ended: { readonly watcher: string; readonly atMs: number } | undefined;
  let handOver = "";
  const starting = startEmbedded({
    log: consoleLog("", flags.verbose ? "info" : "error"),
    nodes: NODES,
    realAgents: flags.realAgent === true,
    watchers: WATCHERS,
    onLead: (watcher) => {
      tell(watcher, "leads");
      if (ended)
        handOver = `${ended.watcher}, the leader, was stopped during the rollout; ${watcher} led ${Date.now() - ended.atMs} ms later.`;
    },
    onInvocation: () => totals.invocations++,
    trace: (line) => syncs.trace(line),
    onChanges: (resource, items) => {
      syncs.changed(resource, items);
      lag.changes(items);
    },
  });
  const embedded = await withProgress("Starting the in-memory cluster", starting);
  embedded.server.onRequest((record) => {
    lag.request(record);
    if (record.resource === "pods" && record.verb === "create" && record.subresource === "" && record.status === 201) totals.pods++;
  });
  await embedded.ready();
  const stack = `in-memory API server, queue fauxqs, store ${embedded.storeName}, ${WATCHERS} watchers, ${NODES} ${flags.realAgent ? "nodes, each with the node agent on an in-memory runtime" : "scripted nodes"}`;
  view.say(`Ready after ${seconds(Date.now() - startedMs)}: ${stack}.`);

  if (flags.open) page = await opened(embedded, view);

  const demo = new Demo(embedded, view, { activity, startedMs, stack, lag });
  await demo.step("create Deployment web with 3 replicas of web:v1", () => demo.create());
  await demo.step("scale web to 6", () => demo.scale(6));
  await demo.step("roll web to image web:v2, and stop the leading watcher", () => demo.setImage("web:v2"), {
    when: (seen) => updatedOf(seen) >= 2,
    what: () => {
      ended = { watcher: embedded.endLeader(), atMs: Date.now() };
      tell(ended.watcher, "receives SIGTERM");
    },
  });
  const [p50, p99] = [lag.percentile(0.5), lag.percentile(0.99)];
  view.say(
    `\n${handOver}\nDone in ${seconds(Date.now() - startedMs)}: ${syncs.count} syncs in ${totals.invocations} function invocations made ${lag.writes} writes and ${totals.pods} pods; ` +
      `from event to write p50 ${p50 ?? "-"} ms, p99 ${p99 ?? "-"} ms.`,
  );
  if (flags.keep) await keep(embedded, view);
  if (flags.open) await new Promise<never>(() => undefined); // until a signal
  await embedded.stop();
}

async function opened({ url }: Embedded, view: DemoView): Promise<LivePage> {
  const { openLivePage, openText } = await import("./explain/timeline/open-page.ts");
  const kube = createWatch(createClient({ server: url, component: "timeline" }));
  const page = await openLivePage({ source: "deltaloop demo", server: url, kube, log: consoleLog("", "error") });
  void page.run(new AbortController().signal); // runs until this process ends
  view.say(openText(page.url));
  return page;
}

interface Around {
  readonly activity: readonly string[];
  readonly startedMs: number;
  readonly stack: string;
  readonly lag: LagMeter;
}

/** Acts as the user of the demo. */
class Demo {
  readonly #embedded: Embedded;
  readonly #view: DemoView;
  readonly #around: Around;
  readonly #kube;

  constructor(embedded: Embedded, view: DemoView, around: Around) {
    this.#embedded = embedded;
    this.#view = view;
    this.#around = around;
    this.#kube = createInProcessKube(embedded.server, { component: "demo" });
  }

  /**
   * Performs the step and shows progress until the rollout is complete by the rules of `kubectl rollout status`; calls `then` once during
   * the rollout.
   */
  async step(what: string, act: () => Promise<unknown>, then?: Then): Promise<void> {
    const startedMs = Date.now();
    this.#view.say(`\n> ${what}`);
    await act();
    let left = then;
    for (;;) {
      const seen = (await this.#kube.get(WEB.resource, WEB.namespace, WEB.name)) as unknown as Rollout; // the object is a Deployment
      if (isRolledOut(seen)) break;
      if (left?.when(seen)) {
        left.what();
        left = undefined;
      }
      if (Date.now() - startedMs > STEP_MS_MAX)
        throw new Error(`"${what}" is not complete after ${seconds(STEP_MS_MAX)}; run it with --verbose to see why`);
      await this.#show(what);
      await new Promise((resolve) => setTimeout(resolve, FRAME_MS));
    }
    await this.#show(what);
    this.#view.say(`  complete after ${seconds(Date.now() - startedMs)}`);
  }

  create(): Promise<unknown> {
    const template = {
      metadata: { labels: { app: "web" } },
      // The in-memory API server issues no tokens, and the node agent would wait for one.
      spec: { containers: [{ name: "web", image: "web:v1" }], terminationGracePeriodSeconds: 1, automountServiceAccountToken: false },
    };
    const spec = { replicas: 3, selector: { matchLabels: { app: "web" } }, template };
    const body = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: WEB.name }, spec };
    return this.#kube.create({ resource: WEB.resource, namespace: WEB.namespace, body });
  }

  scale(replicas: number): Promise<unknown> {
    return this.#kube.patch({ ...WEB, type: "application/merge-patch+json", body: { spec: { replicas } } });
  }

  setImage(image: string): Promise<unknown> {
    const body = { spec: { template: { spec: { containers: [{ name: "web", image }] } } } };
    return this.#kube.patch({ ...WEB, type: "application/strategic-merge-patch+json", body });
  }

  async #show(step: string): Promise<void> {
    const { activity, startedMs, stack, lag } = this.#around;
    const found = this.#embedded.server.peek("deployments.apps", "default", "web");
    const [sets, pods] = await Promise.all((["replicasets", "pods"] as const).map((one) => this.#kube.list(one, WEB.namespace)));
    const replicaSets = (sets?.items ?? []).map((rs) => replicaSetLine(rs, pods?.items ?? []));
    const [p50, p99] = [lag.percentile(0.5), lag.percentile(0.99)];
    const lagLine = p50 === undefined ? "" : `Event to write: p50 ${p50} ms, p99 ${p99} ms, ${lag.writes} writes`;
    this.#view.show({
      step,
      elapsedMs: Date.now() - startedMs,
      stack,
      deployment: found && deploymentLine(found),
      replicaSets,
      activity,
      lag: lagLine,
    });
  }
}

/** An action during a step. */
interface Then {
  readonly when: (seen: Rollout) => boolean;
  readonly what: () => void;
}

interface PodLike {
  readonly metadata: { readonly deletionTimestamp?: string; readonly ownerReferences?: readonly { readonly uid: string }[] };
  readonly status?: { readonly phase?: string; readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

function replicaSetLine(object: KubeObject, pods: readonly KubeObject[]): ReplicaSetLine {
  const rs = object as unknown as {
    metadata: { name: string; uid: string };
    spec: { replicas: number; template: { spec: { containers: readonly { image: string }[] } } };
  }; // the object is a ReplicaSet
  const own = (pods as unknown as readonly PodLike[]).filter(({ metadata }) =>
    metadata.ownerReferences?.some(({ uid }) => uid === rs.metadata.uid),
  );
  return {
    name: rs.metadata.name,
    image: rs.spec.template.spec.containers[0]?.image ?? "",
    desired: rs.spec.replicas,
    pods: own.map(podState),
  };
}

function podState({ metadata, status }: PodLike): ReplicaSetLine["pods"][number] {
  if (metadata.deletionTimestamp !== undefined) return "terminating";
  if (status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True")) return "ready";
  return status?.phase === "Running" ? "running" : "pending";
}

function describeSync(sync: ReplayedSync, startedMs: number): readonly string[] {
  const name = sync.key.replace(/^default\//, "");
  return sync.lines
    .filter(({ kind }) => kind === "decided")
    .map((line) => activityLine(sync.atMs - startedMs, syncFunction(sync.controller), `${name}: ${describeTrace(line)}`));
}

function activityLine(atMs: number, who: string, what: string): string {
  return `${(atMs / 1000).toFixed(2).padStart(6)} ${who.padEnd(15)} ${what}`;
}

async function keep(embedded: Embedded, view: DemoView): Promise<void> {
  const file = join(createOwnFolder("demo").path, "kubeconfig");
  writeFileSync(file, embeddedKubeconfig(embedded.url, "demo"), { mode: 0o600 });
  view.say(`
The cluster runs until Ctrl-C. In another terminal:
  export KUBECONFIG=${file}
  kubectl get deployments,replicasets,pods
  kubectl scale deployment web --replicas=10 && kubectl rollout status deployment web
  kubectl set image deployment web web=web:v3
  kubectl rollout undo deployment web
  kubectl delete deployment web`);
  await new Promise<never>(() => undefined); // until a signal
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
