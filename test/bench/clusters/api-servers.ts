/**
 * API servers in memory on loopback ports, as a program of its own: `fork` it, send a Command, receive its Reply. POST to pod is measured
 * here, inside the API server, so that the time is that of watcher, queue and functions.
 */
import { setTimeout as sleep } from "node:timers/promises";

import type { JsonObject } from "../../../shared/base/json.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import type { ApiServer } from "../../../shared/api-server/api-server.ts";
import { serveHttp } from "../../../shared/api-server/http.ts";
import { rawClientIn } from "../../support/raw-client.ts";
import type { RawClient } from "../../support/raw-client.ts";
import { DEPLOYMENTS, deploymentOf, PODS } from "./workload.ts";

export type Objects = readonly (readonly [resource: string, object: JsonObject])[];

/** Requests over HTTP to one API server since it started. */
export interface Requests {
  readonly leases: number;
  readonly others: number;
}

export type Command =
  | { readonly verb: "start"; readonly count: number; readonly objects: Objects }
  | { readonly verb: "requests" }
  /** Creates a Deployment of 1 and deletes it when its pod exists. */
  | { readonly verb: "deploy"; readonly server: number; readonly name: string }
  /** Creates and deletes pods until `calm`. */
  | { readonly verb: "storm"; readonly server: number; readonly podsPerSecond: number }
  | { readonly verb: "calm" };

export interface Replies {
  readonly start: readonly string[];
  readonly requests: readonly Requests[];
  /** Milliseconds. */
  readonly deploy: number;
  readonly storm: undefined;
  /** Pods created. */
  readonly calm: number;
}

export type Reply = { readonly ok: unknown } | { readonly failed: string };

interface Served {
  readonly server: ApiServer;
  readonly client: RawClient;
  readonly requests: { leases: number; others: number };
  readonly podWaits: Map<string, () => void>;
}

const POD_MS_MAX = 60_000;
const STORM_TICKS_PER_SECOND = 10;

const servers: Served[] = [];
let stormEnds: AbortController | undefined;
let storming: Promise<number> = Promise.resolve(0);

async function start(count: number, objects: Objects): Promise<Replies["start"]> {
  return await Promise.all(Array.from({ length: count }, async () => await startOne(objects)));
}

async function startOne(objects: Objects): Promise<string> {
  const server = createApiServer({ clock: createSystemClock(), random: createSystemRandom(), objects });
  const requests = { leases: 0, others: 0 };
  const podWaits = new Map<string, () => void>();
  server.onRequest(({ verb, resource, status, name }) => {
    if (verb !== "create" || resource !== "pods" || status >= 300) return;
    for (const [prefix, found] of podWaits) if (name.startsWith(`${prefix}-`)) found();
  });
  const { url } = await serveHttp({
    closeWatches: () => server.closeWatches(),
    async request(request) {
      requests[request.path.includes("/leases") ? "leases" : "others"]++;
      return await server.request(request);
    },
  });
  servers.push({ server, client: rawClientIn(server, "bench"), requests, podWaits });
  return url;
}

function at(index: number): Served {
  const found = servers[index];
  if (found === undefined) throw new Error(`no API server ${index}`);
  return found;
}

async function deploy({ client, podWaits }: Served, name: string): Promise<number> {
  const created = Promise.withResolvers<void>();
  podWaits.set(name, created.resolve);
  const late = setTimeout(() => created.reject(new Error(`${name} has no pod after ${POD_MS_MAX} ms`)), POD_MS_MAX);
  const fromMs = performance.now();
  try {
    await client.request("POST", DEPLOYMENTS, deploymentOf(name, 1));
    await created.promise;
    return performance.now() - fromMs;
  } finally {
    clearTimeout(late);
    podWaits.delete(name);
    await client.request("DELETE", `${DEPLOYMENTS}/${name}`, { propagationPolicy: "Background" });
  }
}

async function storm({ client }: Served, podsPerSecond: number, ends: AbortSignal): Promise<number> {
  let made = 0;
  const from = performance.now();
  for (let tick = 1; !ends.aborted; tick++) {
    const names = Array.from({ length: podsPerSecond / STORM_TICKS_PER_SECOND }, () => `storm-${made++}`);
    for (const name of names) await client.request("POST", PODS, { metadata: { name, labels: { app: "storm" } }, spec: POD_SPEC });
    for (const name of names) await client.request("DELETE", `${PODS}/${name}`);
    await sleep(Math.max(0, from + (tick * 1_000) / STORM_TICKS_PER_SECOND - performance.now()));
  }
  return made;
}

const POD_SPEC = { containers: [{ name: "main", image: "bench:1" }] };

async function run(command: Command): Promise<unknown> {
  switch (command.verb) {
    case "start":
      return await start(command.count, command.objects);
    case "requests":
      return servers.map(({ requests }) => requests);
    case "deploy":
      return await deploy(at(command.server), command.name);
    case "storm":
      stormEnds = new AbortController();
      storming = storm(at(command.server), command.podsPerSecond, stormEnds.signal);
      storming.catch(() => undefined); // `calm` reports it
      return undefined;
    case "calm":
      stormEnds?.abort();
      return await storming;
  }
}

process.on("message", (command: Command) => {
  run(command)
    .then(
      (ok): Reply => ({ ok }),
      (error: unknown): Reply => ({ failed: String(error) }),
    )
    .then((reply) => process.send?.(reply))
    .catch(() => process.exit(1));
});
process.on("disconnect", () => process.exit());
