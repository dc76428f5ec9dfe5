/** The user requests of a measured round, and how their effects are observed. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import type { Cluster } from "../../support/e2e.ts";
import type { Party } from "./parties.ts";

const LOOK_MS = 20;
const ROUND_MS_MAX = 180_000;

const LABELS = { app: "bench" };

export function deploymentOf(name: string, replicas: number, image = "bench:1"): object {
  const labels = { ...LABELS, name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image }] } };
  return { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec: { replicas, selector: { matchLabels: labels }, template } };
}

export const deploymentsPath = (namespace: string): string => `/apis/apps/v1/namespaces/${namespace}/deployments`;
export const podsPath = (namespace: string): string => `/api/v1/namespaces/${namespace}/pods`;

/** Creates a namespace and waits until it accepts pods. */
export async function makeNamespace({ client }: Cluster, name: string): Promise<void> {
  await client.request("POST", "/api/v1/namespaces", { apiVersion: "v1", kind: "Namespace", metadata: { name } });
  await until(
    `${name} has its service account`,
    async () => (await client.list(`/api/v1/namespaces/${name}/serviceaccounts`)).items.length > 0,
  );
}

/** Deletes the namespace's Deployments with all dependents, while the measured controller runs. */
export async function clear(cluster: Cluster, namespace: string): Promise<void> {
  await cluster.client.request("DELETE", deploymentsPath(namespace));
  await until(`the pods of ${namespace} are gone`, async () => (await podCount(cluster, namespace)) === 0);
}

interface PodPage {
  readonly metadata: { readonly remainingItemCount?: number };
  readonly items: readonly unknown[];
}

/** Counts pods with one page of one item, whose metadata has the number of remaining items. */
export async function podCount({ client }: Cluster, namespace: string): Promise<number> {
  const { metadata, items } = (await client.request("GET", `${podsPath(namespace)}?limit=1`)) as unknown as PodPage; // a PodList
  return items.length + (metadata.remainingItemCount ?? 0);
}

export async function until(what: string, look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + ROUND_MS_MAX;
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within ${ROUND_MS_MAX / 1_000} s: ${what}`);
    await sleep(LOOK_MS);
  }
}

/** Reports the pods of a namespace through a watch, because polling every 20 ms is too coarse for a single pod. */
export interface PodWatch {
  /** Resolves with the time (`performance.now()`) at which a new pod whose name starts with `prefix` appeared after this call. */
  next(prefix: string): Promise<number>;
  stop(): void;
}

export async function watchPods({ client }: Cluster, namespace: string): Promise<PodWatch> {
  const ending = new AbortController();
  const query = { fieldSelector: `metadata.namespace=${namespace}` };
  const resourceVersion = await client.newestVersion("pods", query, ending.signal);
  const seen = new Set<string>();
  const waiting = new Map<string, (atMs: number) => void>();
  const lines = client.watch("pods", { ...query, resourceVersion, allowWatchBookmarks: false, timeoutSeconds: 3_600 }, ending.signal);
  const read = async (): Promise<void> => {
    for await (const batch of lines) {
      const atMs = performance.now();
      for (const line of batch) {
        const { type, object } = JSON.parse(line) as {
          readonly type: string;
          readonly object: { readonly metadata: { readonly name: string } };
        }; // a watch event
        const { name } = object.metadata;
        if (type !== "ADDED" || seen.has(name)) continue;
        seen.add(name);
        for (const [prefix, resolve] of waiting) if (name.startsWith(prefix)) resolve(atMs);
      }
    }
  };
  read().catch((error: unknown) => ending.signal.aborted || process.stderr.write(`the watch of pods ended: ${String(error)}\n`));
  return {
    async next(prefix) {
      const { promise, resolve } = Promise.withResolvers<number>();
      waiting.set(prefix, resolve);
      const late = new AbortController();
      const timer = sleep(ROUND_MS_MAX, undefined, { signal: late.signal }).then(() => Promise.reject(new Error(`no pod ${prefix}…`)));
      try {
        return await Promise.race([promise, timer]);
      } finally {
        late.abort();
        timer.catch(() => undefined);
        waiting.delete(prefix);
      }
    },
    stop: () => ending.abort(),
  };
}

/** Counts the write requests in the API server's audit log from byte `since` on, by "verb resource". */
export async function writesOf(auditLog: string, since: number, { users }: Party): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for await (const line of createInterface({ input: createReadStream(auditLog, { start: since }) })) {
    if (!/"verb":"(?:create|update|patch|delete)"/.test(line)) continue;
    const { verb, user, objectRef } = JSON.parse(line) as Entry; // written by the API server
    if (!users.some((own) => user.username.startsWith(own)) || objectRef?.resource === "leases") continue;
    const kind = `${verb} ${[objectRef?.resource, objectRef?.subresource].filter(Boolean).join("/")}`;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

interface Entry {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
}
