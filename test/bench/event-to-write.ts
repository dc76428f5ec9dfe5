/**
 * End to end on the embedded stack (in-memory API server, fauxqs over HTTP, redis-server, all functions and nodes in this process): a pod
 * of a standalone ReplicaSet of ten is deleted gracefully, and its replacement is created. Measures the time from the commit of the
 * deletion to the commit of the create, both in the API server, one event at a time with pauses of 50 to 150 ms. Meanwhile nodes start and
 * end the pods of earlier events.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { podTemplate, startStack, until } from "./embedded.ts";
import type { Stack } from "./embedded.ts";
import type { BenchResult } from "./result.ts";

const EVENTS = 250;
const WARM_UP = 30;
const REPLICAS = 10;
const PODS = "/api/v1/namespaces/default/pods";

export async function bench(): Promise<readonly BenchResult[]> {
  const stack = await startStack();
  try {
    await stack.person.request("POST", "/apis/apps/v1/namespaces/default/replicasets", {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name: "bench" },
      spec: { replicas: REPLICAS, selector: { matchLabels: { app: "bench" } }, template: podTemplate("bench") },
    });
    await until("its pods exist", async () => (await pods(stack)).length === REPLICAS);
    const random = createSeededRandom(1);
    const lags: number[] = [];
    for (let event = -WARM_UP; event < EVENTS; event++) {
      await sleep(50 + 100 * random.next());
      const lag = await replaced(stack, random.next());
      if (event >= 0) lags.push(lag);
    }
    const sorted = lags.toSorted((a, b) => a - b);
    const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
    const figure = (name: string, share: number): BenchResult => ({
      name,
      value: at(share),
      unit: "ms",
      n: EVENTS,
      spread: [at(0), at(1)],
    });
    return [figure(`event to write on ${stack.storeName}, p50`, 0.5), figure(`event to write on ${stack.storeName}, p99`, 0.99)];
  } finally {
    await stack.stop();
  }
}

/** Returns the time from a pod's deletion to the create of its replacement, in ms. */
async function replaced(stack: Stack, which: number): Promise<number> {
  const victims = await pods(stack);
  const victim = victims[Math.floor(which * victims.length)];
  if (victim === undefined) throw new Error("no pod to delete");
  const { promise, resolve } = Promise.withResolvers<number>();
  let deletedAt = Number.NaN;
  const stop = stack.server.onRequest(({ verb, resource, name, status }) => {
    if (resource !== "pods" || status >= 300) return;
    if (verb === "delete" && name === victim) deletedAt = performance.now();
    if (verb === "create" && !Number.isNaN(deletedAt)) resolve(performance.now() - deletedAt);
  });
  await stack.person.request("DELETE", `${PODS}/${victim}`);
  const lag = await promise;
  stop();
  return lag;
}

/** Names of the pods that are not terminating. */
async function pods(stack: Stack): Promise<readonly string[]> {
  const { items } = await stack.person.list(PODS);
  // every object has metadata
  const metadata = items.map((item) => item["metadata"] as { readonly name: string; readonly deletionTimestamp?: string });
  return metadata.filter(({ deletionTimestamp }) => deletionTimestamp === undefined).map(({ name }) => name);
}
