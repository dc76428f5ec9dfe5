/**
 * Counts what a rolling update costs inside the system, on memory adapters in virtual time. Each call takes a fixed time, because one sync
 * covers what has arrived while another one ran. Nodes add no delay.
 */
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import type { Metrics } from "../../shared/base/metrics/metrics.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import type { Doorbells } from "../../shared/store/ports/doorbells.ts";
import type { DeltaQueue } from "../../shared/store/ports/delta-queue.ts";
import type { FunctionWiring } from "../../shared/controllers/lambda/wiring.ts";
import { rawClientIn } from "../support/raw-client.ts";
import { silentLog } from "../support/silent-log.ts";
import { testSigner } from "../support/signer.ts";

const START_MS = Date.parse("2026-03-01T10:00:00Z");
const CLUSTER = "0123456789ab";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
/** Until the watcher leads, and until nothing is left to do. */
const READY_MS = 5_000;
const SETTLE_MS = 60_000;
/** Longer than a rolling update, and shorter than the heartbeat of a lane. */
const COUNTED_MS = 5_000;
/** Duration of a call of the API server, the Store and a queue, as on an idle machine. */
const CALL_MS = { kube: 4, node: 1, store: 1, queue: 2 };

/** What one rolling update has caused, until nothing was left to do. */
export interface RolloutCounts {
  /** Requests that changed workloads and pods. */
  readonly writes: number;
  /** Items of delta messages that were applied. */
  readonly deltas: number;
  readonly messages: number;
  readonly messageBytes: number;
  readonly applierCalls: number;
  readonly doorbells: number;
  readonly syncs: number;
  /** Syncs that wrote nothing. */
  readonly idleSyncs: number;
  /** Attempts to take a key that was not due or was being synced. */
  readonly missedTakes: number;
  /** Until the last write. */
  readonly seconds: number;
}

/** Rolls a Deployment of this size to a new image. @throws {Error} if it is then incomplete */
export async function countRollout(replicas: number): Promise<RolloutCounts> {
  const clock = createVirtualClock(START_MS);
  const random = createSeededRandom(1);
  const server = createApiServer({ clock, random, managedFields: true });
  const digester = createDigester("counts");
  const backend = memoryBackend({ clock, random, digester, deployment: "counts", cluster: CLUSTER });
  const counter = new Counter();
  const kube = (component: string, ms: number) => delayed(clock, createInProcessKube(server, { component }), ms);
  const pace = { readyAfterMs: [0, 0], deleteAfterMs: [0, 0] } as const;
  const system = assembleSystem(
    {
      ...{ clock, random, digester, signer: testSigner(CLUSTER), log: silentLog, functions: functionHandlers },
      ...backend,
      kube: (component) => kube(component, CALL_MS.kube),
      queue: delayed(clock, counter.queue(backend.queue), CALL_MS.queue),
      doorbells: delayed(clock, counter.doorbells(backend.doorbells), CALL_MS.queue),
      functionStore: delayed(clock, backend.store, CALL_MS.store),
      functionMetrics: () => counter.metrics,
    },
    {
      cluster: CLUSTER,
      clusterUid: "uid",
      lease: { namespace: "kube-system", name: "counts" },
      nodes: (ends) => runScriptedNodes(kube("nodes", CALL_MS.node), { count: 5, clock, random, bindPods: true, ...pace }, ends),
      onInvocation: ({ function: name }) => {
        if (name === "apply-deltas") counter.applierCalls++;
      },
      trace: counter.trace,
    },
  );
  try {
    await clock.advance(READY_MS);
    const person = rawClientIn(server);
    const template = (image: string) => ({ metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "main", image }] } });
    const spec = { replicas, selector: { matchLabels: { app: "web" } }, template: template("web:1") };
    await person.request("POST", DEPLOYMENTS, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec });
    await clock.advance(SETTLE_MS);
    const before = counter.read();
    const startMs = clock.now();
    let lastMs = startMs;
    const stopCounting = server.onRequest(({ verb, resource, userAgent }) => {
      if (!userAgent.startsWith("sync-") || !["create", "patch", "delete"].includes(verb) || resource === "events") return;
      counter.writes++;
      lastMs = clock.now();
    });
    await person.request("PATCH", `${DEPLOYMENTS}/web`, { spec: { template: template("web:2") } }, "application/merge-patch+json");
    await clock.advance(COUNTED_MS);
    stopCounting();
    const { status } = await person.request<Rolled>("GET", `${DEPLOYMENTS}/web`);
    if (status?.availableReplicas !== replicas || status.updatedReplicas !== replicas)
      throw new Error(`the rolling update is incomplete: ${JSON.stringify(status)}`);
    return { ...difference(before, counter.read()), seconds: (lastMs - startMs) / 1_000 };
  } finally {
    const stopped = system.stop();
    await clock.advance(SETTLE_MS);
    await stopped;
    server.close();
  }
}

interface Rolled {
  readonly status?: { readonly updatedReplicas?: number; readonly availableReplicas?: number };
}

type Counts = Omit<RolloutCounts, "seconds">;

function difference(from: Counts, to: Counts): Counts {
  const entries = Object.entries(to).map(([name, count]) => [name, count - from[name as keyof Counts]] as const);
  return { ...to, ...Object.fromEntries(entries) }; // both have the same keys
}

class Counter {
  writes = 0;
  applierCalls = 0;
  #deltas = 0;
  #messages = 0;
  #messageBytes = 0;
  #doorbells = 0;
  #syncs = 0;
  #writing = 0;
  #missedTakes = 0;
  /** Keys whose running sync has decided nothing yet. */
  readonly #undecided = new Set<string>();

  read(): Counts {
    const { writes, applierCalls } = this;
    const [messages, messageBytes, doorbells] = [this.#messages, this.#messageBytes, this.#doorbells];
    const [syncs, idleSyncs] = [this.#syncs, this.#syncs - this.#writing];
    return {
      writes,
      applierCalls,
      deltas: this.#deltas,
      messages,
      messageBytes,
      doorbells,
      syncs,
      idleSyncs,
      missedTakes: this.#missedTakes,
    };
  }

  queue(queue: DeltaQueue): DeltaQueue {
    return {
      send: (entries) => {
        this.#messages += entries.length;
        for (const { body } of entries) this.#messageBytes += Buffer.byteLength(body);
        return queue.send(entries);
      },
    };
  }

  doorbells(doorbells: Doorbells): Doorbells {
    return {
      ring: (bells) => {
        this.#doorbells += bells.length;
        return doorbells.ring(bells);
      },
    };
  }

  readonly metrics: Metrics = {
    count: (name, labels, by = 1) => {
      if (name === "deltaloop_applied_items_total") this.#deltas += by;
      if (name === "deltaloop_doorbells_total" && (labels as { readonly result: string }).result !== "ok") this.#missedTakes += by; // labels of that metric
    },
    set: () => undefined,
    observe: () => undefined,
  };

  readonly trace: NonNullable<FunctionWiring["trace"]> = ({ controller, key, kind }) => {
    const name = `${controller} ${key}`;
    if (kind === "started") {
      this.#syncs++;
      this.#undecided.add(name);
    }
    if (kind === "decided" && this.#undecided.delete(name)) this.#writing++;
  };
}

/** The same object, whose methods resolve this much later. */
function delayed<T extends object>(clock: VirtualClock, target: T, ms: number): T {
  return new Proxy(target, {
    get(object, name) {
      const method: unknown = Reflect.get(object, name);
      if (typeof method !== "function") return method;
      return (...args: unknown[]): unknown => {
        const result: unknown = Reflect.apply(method, object, args);
        return result instanceof Promise ? result.then((answer: unknown) => clock.after(ms).then(() => answer)) : result;
      };
    },
  });
}
