/**
 * API servers in memory on loopback ports, as a program of its own: `fork` it, send a Command, receive its Reply. POST to pod is measured
 * here, inside the API server, so that the time is that of watcher, queue and functions.
 */
import { setTimeout as sleep } from "node:timers/promises";

import type { JsonObject } from "../../../shared/base/json.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import type { ApiResponse, ApiServer } from "../../../shared/api-server/api-server.ts";
import type { ApiRequest } from "../../../shared/api-server/rest/request-info.ts";
import { serveHttp } from "../../../shared/api-server/http.ts";
import type { HttpApiServer } from "../../../shared/api-server/http.ts";
import { isNotFound } from "../../../shared/kube/client/errors.ts";
import { rawClientIn } from "../../support/raw-client.ts";
import type { RawClient } from "../../support/raw-client.ts";
import { problemsOf } from "./inspection.ts";
import type { Inspected, Inspection } from "./inspection.ts";
import { DEPLOYMENTS, deploymentOf, PODS, REPLICA_SETS } from "./workload.ts";

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
  | { readonly verb: "deploy"; readonly server: number; readonly name: string; readonly canary?: string }
  /** Creates a Deployment with `replicas`, or gives the existing one these replicas and a new pod template. */
  | { readonly verb: "revise"; readonly server: number; readonly name: string; readonly canary: string; readonly replicas: number }
  /** Creates and deletes pods until `calm`. */
  | { readonly verb: "storm"; readonly server: number; readonly podsPerSecond: number }
  | { readonly verb: "calm" }
  /** What the API server does until the next such command; `upgraded` and `back` end it. */
  | { readonly verb: "disturb"; readonly server: number; readonly how: Disturbance }
  /** Rejects this token from now on. */
  | { readonly verb: "expire"; readonly server: number; readonly token: string }
  /** Starts another API server with the objects of this one, Leases included. */
  | { readonly verb: "copy"; readonly server: number }
  /** Ends the API server for good. */
  | { readonly verb: "end"; readonly server: number }
  | { readonly verb: "inspect"; readonly server: number };

/** `slow`: each answer takes SLOW_MS. `old`: of the release before; `upgraded` restarts it with this one. */
export type Disturbance = "unreachable" | "slow" | "old" | "upgraded" | "back";

export interface Replies {
  readonly start: readonly string[];
  readonly requests: readonly Requests[];
  /** Milliseconds. */
  readonly deploy: number;
  readonly revise: undefined;
  readonly storm: undefined;
  /** Pods created. */
  readonly calm: number;
  readonly disturb: undefined;
  readonly expire: undefined;
  /** URL and index of the new server. */
  readonly copy: { readonly url: string; readonly server: number };
  readonly end: undefined;
  readonly inspect: Inspection;
}

/** Commands run at the same time; a reply has the number of its command. */
export interface Numbered<T> {
  readonly number: number;
  readonly content: T;
}

export type Reply = { readonly ok: unknown } | { readonly failed: string };

interface Served {
  readonly server: ApiServer;
  readonly client: RawClient;
  readonly requests: { leases: number; others: number };
  readonly podWaits: Map<string, () => void>;
  readonly tokens: Set<string>;
  readonly canaries: Set<string>;
  readonly expired: Set<string>;
  http: HttpApiServer;
  disturbance: Disturbance | undefined;
}

const POD_MS_MAX = 60_000;
const STORM_TICKS_PER_SECOND = 10;
const SLOW_MS = 10_000;
const OLD_VERSION = "v1.36.0";
const CANARIES = /\bcanary\.[a-z0-9-]+/g;
const MERGE_PATCH = "application/merge-patch+json";

const servers: Served[] = [];
let stormEnds: AbortController | undefined;
let storming: Promise<number> = Promise.resolve(0);

async function start(count: number, objects: Objects): Promise<Replies["start"]> {
  return await Promise.all(Array.from({ length: count }, async () => await startOne(objects)));
}

async function startOne(objects: Objects): Promise<string> {
  const firstRevision = newestVersion(objects);
  const server = createApiServer({ clock: createSystemClock(), random: createSystemRandom(), objects, firstRevision });
  const requests = { leases: 0, others: 0 };
  const podWaits = new Map<string, () => void>();
  server.onRequest(({ verb, resource, status, name }) => {
    if (verb !== "create" || resource !== "pods" || status >= 300) return;
    for (const [prefix, found] of podWaits) if (name.startsWith(`${prefix}-`)) found();
  });
  const http = await serveHttp({ closeWatches: () => server.closeWatches(), request: async (request) => await answer(served, request) });
  const [tokens, canaries, expired] = [new Set<string>(), new Set<string>(), new Set<string>()];
  const client = rawClientIn(server, "bench");
  const served: Served = { server, client, requests, podWaits, tokens, canaries, expired, http, disturbance: undefined };
  servers.push(served);
  return http.url;
}

/** The server's versions continue after those of its objects, as in a restored etcd. */
function newestVersion(objects: Objects): bigint {
  // Every object has metadata.
  const versions = objects.map(([, { metadata }]) => BigInt((metadata as { readonly resourceVersion?: string }).resourceVersion ?? "1"));
  return versions.reduce((newest, version) => (version > newest ? version : newest), 1n);
}

async function answer(served: Served, request: ApiRequest): Promise<ApiResponse> {
  const { server, requests, tokens, canaries, expired, disturbance } = served;
  const token = String(request.headers?.["authorization"]).replace("Bearer ", "");
  requests[request.path.includes("/leases") ? "leases" : "others"]++;
  tokens.add(token);
  if (request.body !== undefined) for (const canary of canariesIn(request.body)) canaries.add(canary);
  if (expired.has(token)) return { kind: "object", status: 401, headers: {}, body: UNAUTHORIZED };
  if (disturbance === "slow") await sleep(SLOW_MS);
  const answered = await server.request(request);
  if (request.path !== "/version" || answered.kind !== "object" || disturbance !== "old") return answered;
  return { ...answered, body: { ...answered.body, minor: "36", gitVersion: OLD_VERSION } };
}

function canariesIn(body: unknown): readonly string[] {
  const text = Buffer.isBuffer(body) ? body.toString("latin1") : typeof body === "string" ? body : JSON.stringify(body);
  return text.match(CANARIES) ?? [];
}

const UNAUTHORIZED = { kind: "Status", apiVersion: "v1", status: "Failure", reason: "Unauthorized", message: "Unauthorized", code: 401 };

async function disturb(served: Served, how: Disturbance): Promise<void> {
  const { disturbance: before, http, server } = served;
  served.disturbance = how;
  if (how === "unreachable" || how === "upgraded") await http.close();
  if (how !== "upgraded" && !(how === "back" && before === "unreachable")) return;
  const listening = { closeWatches: () => server.closeWatches(), request: async (request: ApiRequest) => await answer(served, request) };
  served.http = await serveHttp(listening, { port: http.port });
}

async function copy({ client }: Served): Promise<Replies["copy"]> {
  const paths = [
    ["namespaces", "/api/v1/namespaces"],
    ["leases.coordination.k8s.io", "/apis/coordination.k8s.io/v1/leases"],
    ["deployments.apps", "/apis/apps/v1/deployments"],
    ["replicasets.apps", "/apis/apps/v1/replicasets"],
    ["pods", "/api/v1/pods"],
  ] as const;
  const lists = await Promise.all(paths.map(async ([resource, path]) => [resource, (await client.list<JsonObject>(path)).items] as const));
  const url = await startOne(lists.flatMap(([resource, items]) => items.map((item) => [resource, item] as const)));
  return { url, server: servers.length - 1 };
}

async function inspect({ client, tokens, canaries }: Served): Promise<Inspection> {
  const list = async (path: string): Promise<readonly Inspected[]> => (await client.list<Inspected & JsonObject>(path)).items;
  const [deployments, replicaSets, pods] = await Promise.all([list(DEPLOYMENTS), list(REPLICA_SETS), list(PODS)]);
  const all = [...deployments, ...replicaSets, ...pods];
  return {
    names: all.map(({ metadata }) => metadata.name),
    problems: problemsOf({ deployments, replicaSets, pods }),
    tokens: [...tokens],
    canaries: [...new Set([...canaries, ...canariesIn(all)])],
  };
}

function at(index: number): Served {
  const found = servers[index];
  if (found === undefined) throw new Error(`no API server ${index}`);
  return found;
}

async function deploy({ client, podWaits }: Served, name: string, canary?: string): Promise<number> {
  const created = Promise.withResolvers<void>();
  podWaits.set(name, created.resolve);
  const late = setTimeout(() => created.reject(new Error(`${name} has no pod after ${POD_MS_MAX} ms`)), POD_MS_MAX);
  const fromMs = performance.now();
  try {
    await client.request("POST", DEPLOYMENTS, deploymentOf(name, 1, canary));
    await created.promise;
    return performance.now() - fromMs;
  } finally {
    clearTimeout(late);
    podWaits.delete(name);
    await client.request("DELETE", `${DEPLOYMENTS}/${name}`, { propagationPolicy: "Background" });
  }
}

async function revise({ client }: Served, name: string, replicas: number, canary: string): Promise<void> {
  const deployment = deploymentOf(name, replicas, canary);
  const patched = client.request("PATCH", `${DEPLOYMENTS}/${name}`, deployment, MERGE_PATCH);
  await patched.catch(async (error: unknown) => {
    if (!isNotFound(error)) throw error;
    await client.request("POST", DEPLOYMENTS, deployment);
  });
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
      return await deploy(at(command.server), command.name, command.canary);
    case "revise":
      return await revise(at(command.server), command.name, command.replicas, command.canary);
    case "storm":
      stormEnds = new AbortController();
      storming = storm(at(command.server), command.podsPerSecond, stormEnds.signal);
      storming.catch(() => undefined); // `calm` reports it
      return undefined;
    case "calm":
      stormEnds?.abort();
      return await storming;
    case "disturb":
      return await disturb(at(command.server), command.how);
    case "expire":
      return void at(command.server).expired.add(command.token);
    case "copy":
      return await copy(at(command.server));
    case "end":
      await at(command.server).http.close();
      return at(command.server).server.close();
    case "inspect":
      return await inspect(at(command.server));
  }
}

process.on("message", ({ number, content: command }: Numbered<Command>) => {
  run(command)
    .then(
      (ok): Reply => ({ ok }),
      (error: unknown): Reply => ({ failed: String(error) }),
    )
    .then((content) => process.send?.({ number, content }))
    .catch(() => process.exit(1));
});
process.on("disconnect", () => process.exit());
