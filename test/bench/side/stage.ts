/** The user requests of a measured round, and how their effects are observed. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

import { isNotFound } from "../../../shared/kube/client/errors.ts";
import { ListWatch } from "../../../shared/kube/list-watch/list-watch.ts";
import type { Resource } from "../../../shared/kube/objects/resources.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
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

export async function watchPods(cluster: Cluster, namespace: string): Promise<PodWatch> {
  const waiting = new Map<string, (atMs: number) => void>();
  const stop = await onNewPods(cluster, namespace, (names) => {
    const atMs = performance.now();
    for (const name of names) for (const [prefix, resolve] of waiting) if (name.startsWith(prefix)) resolve(atMs);
  });
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
    stop,
  };
}

/**
 * Makes each new pod of a namespace ready at once, with one write. The pods have no node, so a DELETE removes them at once too: no node
 * takes part of the measured time, nor much of the machine.
 * @returns a function that stops it
 */
export async function readyAtOnce(cluster: Cluster, namespace: string): Promise<() => void> {
  return await onNewPods(cluster, namespace, (names) => {
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime: new Date().toISOString().replace(/\.\d+/, "") }];
    const body = { status: { phase: "Running", conditions } };
    for (const name of names)
      cluster.client
        .request("PATCH", `${podsPath(namespace)}/${name}/status`, body, "application/merge-patch+json")
        .catch((error: unknown) => isNotFound(error) || process.stderr.write(`${name} did not become ready: ${String(error)}\n`));
  });
}

/**
 * Calls `seen` with the names of the pods that appear from now on. The API server ends watches that it finds slow, so the watch resumes.
 * @returns a function that ends the watch
 */
async function onNewPods({ client }: Cluster, namespace: string, seen: (names: readonly string[]) => void): Promise<() => void> {
  const ending = new AbortController();
  const fieldSelector = `metadata.namespace=${namespace}`;
  const resumeFrom = await client.newestVersion("pods", { fieldSelector }, ending.signal);
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const known = new Set<string>();
  let added: string[] = [];
  const add = (object: unknown): void => {
    const { name } = (object as { readonly metadata: { readonly name: string } }).metadata; // every object has metadata
    if (!known.has(name)) added.push(name);
    known.add(name);
  };
  const deliver = (): void => {
    if (added.length > 0) seen(added);
    added = [];
  };
  const pods = new ListWatch<Resource>(
    { kube: client, resource: "pods", fieldSelector, resumeFrom, clock, random },
    {
      list: () => ({ page: (items) => items.forEach(add), change: (_, object) => add(object), listed: deliver }),
      change: (type, object) => (type === "A" ? add(object) : undefined),
      batchDone: deliver,
    },
  );
  pods
    .run(ending.signal)
    .catch((error: unknown) => ending.signal.aborted || process.stderr.write(`the watch of pods ended: ${String(error)}\n`));
  return () => ending.abort();
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

/** When the API server answered the party's lists of all pods, since byte `since` of the audit log, by `performance.now()`. */
export async function podListsOf(auditLog: string, since: number, { users }: Party): Promise<readonly number[]> {
  const answers: number[] = [];
  for await (const line of createInterface({ input: createReadStream(auditLog, { start: since }) })) {
    if (!line.includes('"verb":"list"')) continue;
    const { user, objectRef, stageTimestamp } = JSON.parse(line) as Entry; // written by the API server
    if (objectRef?.resource !== "pods" || !users.some((own) => user.username.startsWith(own))) continue;
    answers.push(Date.parse(stageTimestamp) - performance.timeOrigin);
  }
  return answers;
}

interface Entry {
  readonly verb: string;
  readonly stageTimestamp: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
}
