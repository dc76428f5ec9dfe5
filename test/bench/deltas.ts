/**
 * The time from an event to a dirty key, and its cost in queue requests. On the embedded stack (in-memory API server, fauxqs over HTTP,
 * redis-server, all functions in this process), pods of one ReplicaSet are annotated, 50 changes per second. A key is dirty once the Store
 * has responded to the step that applied the change, because one step does both. Requests are those of all our components to the queue, as
 * the queue counts them, including polling, because AWS also bills the polls of Lambda's pollers.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { podTemplate, startStack, until } from "./embedded.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const DELTAS = 1_000;
const PER_SECOND = 50;
const PODS = 50;
const ROUNDS = 3;
const PATH = "/api/v1/namespaces/default/pods";
const GOAL = { name: "issue: at most 40", value: 40 };

/** An object of the API server. */
interface Stored {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

/** Measures the default settings, and settings for users who prefer fewer paid requests. */
export async function bench(): Promise<readonly BenchResult[]> {
  return [...(await play("")), ...(await play(", lingering 5 s", 5_000))];
}

async function play(how: string, batchingWindowMs?: number): Promise<readonly BenchResult[]> {
  /** resourceVersion of a change → when the API server had stored it. */
  const storedMs = new Map<string, number>();
  const lags: number[] = [];
  const requests = new Map<string, number>();
  const count = (message: unknown): void => {
    const { request } = message as { readonly request: IncomingMessage }; // the documented message of this channel
    const action = /^AmazonSQS\.(.*)$/.exec(String(request.headers["x-amz-target"] ?? ""))?.[1];
    if (action !== undefined) requests.set(action, (requests.get(action) ?? 0) + 1);
  };
  const stack = await startStack({
    ...(batchingWindowMs !== undefined && { batchingWindowMs }),
    onChanges: (resource, items) => {
      if (resource !== "pods") return;
      for (const { rv } of items) {
        const atMs = storedMs.get(rv);
        if (atMs !== undefined) lags.push(performance.now() - atMs);
      }
    },
  });
  try {
    await stack.person.request("POST", "/apis/apps/v1/namespaces/default/replicasets", {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name: "bench" },
      spec: { replicas: PODS, selector: { matchLabels: { app: "bench" } }, template: podTemplate("bench") },
    });
    const names = async (): Promise<readonly string[]> =>
      (await stack.person.list(PATH)).items.map((pod) => (pod as unknown as Stored).metadata.name);
    await until("its pods exist", async () => (await names()).length === PODS);
    const pods = await names();
    await sleep(3_000); // until the pods are ready
    subscribe("http.server.request.start", count);
    const perRound: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      requests.clear();
      const start = performance.now();
      for (let change = 0; change < DELTAS; change++) {
        await sleep(Math.max(0, start + (change * 1_000) / PER_SECOND - performance.now()));
        const body = { metadata: { annotations: { "bench/change": `${round}-${change}` } } };
        const pod = await stack.person.request("PATCH", `${PATH}/${pods[change % PODS]}`, body, "application/merge-patch+json");
        storedMs.set((pod as unknown as Stored).metadata.resourceVersion, performance.now());
      }
      perRound.push([...requests.values()].reduce((sum, one) => sum + one, 0));
      process.stderr.write(`  round ${round}: ${[...requests].map(([action, n]) => `${action} ${n}`).join(", ")}\n`);
    }
    const sorted = lags.toSorted((a, b) => a - b);
    const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
    const lag = (name: string, share: number): BenchResult => ({
      name: `${name}${how}`,
      value: at(share),
      unit: "ms",
      n: sorted.length,
      spread: [at(0), at(1)],
    });
    return [
      lag("event to dirty key, p50", 0.5),
      lag("event to dirty key, p99", 0.99),
      benchResult(`SQS requests per 1,000 deltas, ${PER_SECOND} a second${how}`, "requests", perRound, GOAL),
    ];
  } finally {
    unsubscribe("http.server.request.start", count);
    await stack.stop();
  }
}
