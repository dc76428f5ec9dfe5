/**
 * A copy of the cluster, as in a restored backup: the workloads with their uids and the watcher's Lease at the time of the backup. It uses
 * the same MAC keys, Store and queues. Its resourceVersions are lower or higher than those of the original. Its pods are missing, so the
 * cache contains objects that the copy lacks.
 */
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import type { ApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import type { JsonObject } from "../../shared/base/json.ts";
import { assembleSystem } from "../../shared/local/assemble-system.ts";
import type { System, SystemOptions, SystemPorts } from "../../shared/local/assemble-system.ts";
import { rawClientIn } from "../support/raw-client.ts";

/**
 * Delay after the backup, in ms, so that the copy's Lease holds a smaller term count than the last one that the Store confirmed. Otherwise
 * the copy cannot be detected (informer §11.11).
 */
export const BACKUP_AGE_MS = 10_000;
const LEASES = "leases.coordination.k8s.io";
const READS: ReadonlySet<string> = new Set(["get", "list", "watch"]);
const COPIED = new Map([
  ["namespaces", "/api/v1/namespaces"],
  [LEASES, "/apis/coordination.k8s.io/v1/leases"],
  ["deployments.apps", "/apis/apps/v1/deployments"],
  ["replicasets.apps", "/apis/apps/v1/replicasets"],
]);

export type Backup = readonly { readonly resource: string; readonly objects: readonly JsonObject[] }[];

export async function backUp(server: ApiServer): Promise<Backup> {
  const client = rawClientIn(server, "backup");
  return await Promise.all(
    [...COPIED].map(async ([resource, path]) => ({ resource, objects: (await client.list<JsonObject>(path)).items })),
  );
}

interface SecondCluster {
  readonly ports: Omit<SystemPorts, "kube" | "functions">;
  readonly options: SystemOptions & Required<Pick<SystemOptions, "lease">>;
  readonly seed: number;
  /** Called after each write that one of the copy's sync functions sends, with the copy's Lease. */
  readonly onWrite: (what: string, lease: JsonObject | undefined) => void;
}

/** Starts the copy with its own watcher and functions. */
export function startSecondCluster(backup: Backup, { ports, options, seed, onWrite }: SecondCluster): System {
  const random = createSeededRandom(seed);
  const server = createApiServer({ clock: ports.clock, random, firstRevision: random.next() < 0.5 ? 1n : 9_100_000_000_000_000n });
  for (const { resource, objects } of backup) for (const object of objects) server.place(resource, object);
  server.onRequest(({ userAgent, verb, resource, name }) => {
    if (!userAgent.includes("sync-") || READS.has(verb) || resource === "events") return;
    onWrite(`${userAgent} ${verb} ${resource} ${name}`, server.peek(LEASES, options.lease.namespace, options.lease.name));
  });
  return assembleSystem(
    { ...ports, kube: (component) => createInProcessKube(server, { component: `deltaloop-${component}` }), functions: functionHandlers },
    options,
  );
}
