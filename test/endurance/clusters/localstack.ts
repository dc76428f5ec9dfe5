/**
 * `npm run clusters-drill`: one deployment on LocalStack for three clusters of Parameter Store. One is added and one is removed without another
 * deployment. Prints the times; exits with 1 when one is too long, or when a server gets a request with another cluster's token.
 *
 * The functions are the deployed zips behind event source mappings, the watcher is a process as in its container, and `deltaloop cluster`
 * writes the parameters. The API servers are in memory.
 */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Redis } from "ioredis";

import { deploy, putSecrets, remove, ROOT, STAGE } from "../../../infra/local/deploy.ts";
import type { LocalDeployment } from "../../../infra/local/deploy.ts";
import { startLocalStack } from "../../../infra/local/localstack.ts";
import { findQueues } from "../../../infra/local/stack.ts";
import { localStackVenv } from "../../../infra/local/venv.ts";
import { startWatcher } from "../../../infra/local/watcher.ts";
import type { JsonObject } from "../../../shared/base/json.ts";
import { NO_CLUSTER } from "../../../shared/controllers/lambda/clusters/directory-configuration.ts";
import { environmentOf } from "../../../shared/controllers/lambda/configuration.ts";
import { secretName } from "../../../shared/controllers/registry/names.ts";
import { startLocalRedis } from "../../../shared/local/processes.ts";
import { createParameters } from "../../../shared/store/secrets/parameters.ts";
import { deltaloop, eventually } from "../../support/e2e.ts";
import { startMemoryApiServer } from "../../support/memory-clusters.ts";
import type { MemoryApiServer } from "../../support/memory-clusters.ts";
import { ensureRedisServer } from "../../support/redis.ts";

const PLACE = `ssm:/deltaloop/${STAGE}/clusters`;
const ALLOW = "loopback,insecure";
/** Limits in ms: a new cluster is served, and a removed one is forgotten. */
const [SERVED_MS_MAX, FORGOTTEN_MS_MAX] = [30_000, 60_000];
const FIRST_MS_MAX = 180_000;
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const PODS = "/api/v1/namespaces/default/pods";

interface Pod {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
}

const found: string[] = [];
const stops: (() => Promise<unknown>)[] = [];
const missing = await localStackVenv().then((venv) => ("missing" in venv ? venv.missing : ensureRedisServer()));
if (missing !== undefined) {
  process.stderr.write(`${missing}\n`);
  process.exit(2);
}
try {
  await drill();
} catch (error) {
  found.push(error instanceof Error ? error.message : String(error));
} finally {
  for (const stop of stops.toReversed()) await stop().catch((error: unknown) => process.stderr.write(`${String(error)}\n`));
}
for (const line of found) say(`FOUND  ${line}`);
say(found.length === 0 ? "all clusters were served, and nothing crossed" : `${found.length} found`);
process.exit(found.length === 0 ? 0 : 1);

async function drill(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-clusters-drill-"));
  stops.push(async () => await rm(folder, { recursive: true }));
  const redis = await startLocalRedis("");
  if (redis === undefined) throw new Error("redis-server does not start");
  stops.push(redis.stop);
  const localStack = await startLocalStack();
  stops.push(localStack.stop);
  const { endpoint } = localStack;
  await startServices(endpoint);
  const servers = new Map<string, MemoryApiServer>();

  async function start(name: string): Promise<MemoryApiServer> {
    const server = await startMemoryApiServer(`token-of-${name}`);
    stops.push(server.stop);
    await server.client.request("POST", "/api/v1/namespaces", { metadata: { name: "deltaloop" } });
    servers.set(name, server);
    return server;
  }
  async function cluster(...args: readonly string[]): Promise<void> {
    const command = deltaloop(["cluster", ...args, "--clusters", PLACE], { DELTALOOP_SECRETS_ENDPOINT: endpoint });
    const { code } = await command.exited;
    if (code !== 0) throw new Error(command.output());
  }
  async function add(name: string): Promise<void> {
    const { kubeconfig } = await start(name);
    const file = join(folder, name);
    await writeFile(file, kubeconfig);
    await cluster("add", name, "--kubeconfig", file, "--allow", "loopback", "insecure");
  }

  await Promise.all(["blue", "red"].map(async (name) => await add(name)));
  const [digestKey, macKey] = [randomBytes(32).toString("hex"), randomBytes(32).toString("hex")];
  const deployment: LocalDeployment = {
    ...{ endpoint, listed: { allow: ALLOW }, clusterId: "", kubeServer: "", mode: "act", redisUrl: redis.url },
    ...{ digestKey, macKey, kubeTokens: {}, logLevel: "info" },
  };
  await putSecrets(deployment);
  await timed("serverless deploy", async () => await deploy(deployment));
  const configuration = environmentOf({
    ...{ deployment: STAGE, cluster: NO_CLUSTER.cid, mode: "act", digestKey, macKeys: [macKey], redis: { url: redis.url, cluster: false } },
    ...{ kube: { server: NO_CLUSTER.server }, queues: await findQueues(endpoint), logLevel: "info", metrics: "emf" },
  });
  const { DELTALOOP_MAC_KEY: _mac, DELTALOOP_DIGEST_KEY: _digest, ...variables } = configuration;
  const watcher = startWatcher({
    ...{ root: ROOT, flags: ["--metrics", "127.0.0.1:0"], say },
    environment: {
      ...variables,
      ...{ DELTALOOP_CLUSTERS: PLACE, DELTALOOP_CLUSTERS_ALLOW: ALLOW, DELTALOOP_SECRETS_ENDPOINT: endpoint },
      DELTALOOP_MAC_KEY_SECRET: secretName(STAGE, "mac-key"),
      DELTALOOP_DIGEST_KEY_SECRET: secretName(STAGE, "digest-key"),
    },
  });
  stops.push(watcher.stop);

  await Promise.all(
    ["blue", "red"].map(async (name) => await within(FIRST_MS_MAX, `first rollout of ${name}`, async () => await rollout(name, "first"))),
  );
  await within(SERVED_MS_MAX, "gray, added without a deployment, from cluster add to its pods", async () => {
    await add("gray");
    await rollout("gray", "first");
  });
  await within(FORGOTTEN_MS_MAX, "red, from cluster rm until no keys are left", async () => {
    await cluster("rm", "red");
    await eventually("two clusters are left", async () => (await leftOver(redis.url, endpoint)).clusters === 2, FORGOTTEN_MS_MAX * 2);
  });
  const ends = servers.get("red")?.requests.length;
  for (const name of ["blue", "gray"]) await within(SERVED_MS_MAX, `second rollout of ${name}`, async () => await rollout(name, "second"));
  if (servers.get("red")?.requests.length !== ends) found.push("red got requests after its removal");
  for (const [name, { requests }] of servers)
    for (const request of requests.filter((each) => !each.endsWith(`token-of-${name}`))) found.push(`${name} got ${request}`);
  const { clusters, parameters } = await leftOver(redis.url, endpoint);
  say(`keys of ${clusters} clusters and ${parameters} parameters are left`);
  if (parameters !== 2 * 7) found.push(`${parameters} parameters are left instead of 14`);
  await timed("serverless remove", async () => await remove(deployment));

  async function rollout(name: string, deploymentName: string): Promise<void> {
    const { client } = servers.get(name) ?? (await start(name));
    await client.request("POST", DEPLOYMENTS, deploymentOf(deploymentName));
    await eventually(
      `${name} has the pods of ${deploymentName}`,
      async () => {
        const { items } = (await client.request("GET", PODS)) as { readonly items: readonly Pod[] }; // a list of pods
        return items.filter(({ metadata }) => metadata.labels?.["app"] === deploymentName).length === 2;
      },
      FIRST_MS_MAX,
    );
  }
}

/** LocalStack starts Parameter Store and KMS with the first request, which takes longer than the command waits. */
async function startServices(endpoint: string): Promise<void> {
  const parameters = createParameters({ endpoint, timeoutMs: FIRST_MS_MAX });
  await parameters.versions("/none");
  await parameters.put("/none/x", "x");
  await parameters.remove(["/none/x"]);
  parameters.close();
}

/** Clusters with keys in Redis, and parameters. */
async function leftOver(redisUrl: string, endpoint: string): Promise<{ readonly clusters: number; readonly parameters: number }> {
  const [client, parameters] = [new Redis(redisUrl), createParameters({ endpoint })];
  try {
    const keys = await client.keys("*");
    const cids = new Set(keys.flatMap((key) => /\{([0-9a-f]{32})\}/.exec(key)?.[1] ?? []));
    const roles = [
      "apply-deltas",
      "dead-deltas",
      "sweep",
      "watcher",
      ...["deployment", "replicaset", "replicationcontroller"].map((each) => `sync-${each}`),
    ];
    const counts = await Promise.all(
      roles.map(async (role) => (await parameters.versions(`/deltaloop/${STAGE}/clusters/deltaloop-${role}`)).size),
    );
    return { clusters: cids.size, parameters: counts.reduce((sum, each) => sum + each, 0) };
  } finally {
    client.disconnect();
    parameters.close();
  }
}

function deploymentOf(name: string): JsonObject {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
  return { metadata: { name }, spec: { replicas: 2, selector: { matchLabels: labels }, template } };
}

async function within(mostMs: number, what: string, act: () => Promise<unknown>): Promise<void> {
  const ms = await timed(what, act);
  if (ms > mostMs) found.push(`${what}: ${(ms / 1000).toFixed(1)} s, at most ${mostMs / 1000}`);
}

async function timed(what: string, act: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await act();
  const ms = performance.now() - from;
  say(`${what}: ${(ms / 1000).toFixed(1)} s`);
  return ms;
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
