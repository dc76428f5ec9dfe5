/**
 * `deltaloop dev --act --clusters`: clusters that are deleted and created again under the same name, at another address and at the same one.
 * Catches: pods for the Deployment of the former cluster, and a new cluster that is taken for the former one.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { DEV_SECRETS } from "../support/cache-compared.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE } from "../support/e2e.ts";
import type { Running } from "../support/e2e.ts";
import { startMemoryApiServer } from "../support/memory-clusters.ts";
import type { MemoryApiServer } from "../support/memory-clusters.ts";
import { ensureRedisServer, startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

const NAMESPACE = "shop";
const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
/** A new cluster is served within 30 s; a rollout follows. */
const SERVED_MS_MAX = 40_000;
const FORGOTTEN_MS_MAX = 60_000;
/** More writes than the former cluster had, so that its versions continue those of the former one. */
const WRITES = 300;
const missing = ensureRedisServer();

async function createDeployment({ client }: MemoryApiServer, name: string, replicas: number, image: string): Promise<void> {
  const labels = { app: name };
  const template = { metadata: { labels }, spec: { containers: [{ name: "main", image }] } };
  const spec = { replicas, selector: { matchLabels: labels }, template };
  await client.request("POST", DEPLOYMENTS, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name, namespace: NAMESPACE }, spec });
}

async function whenAvailable({ client }: MemoryApiServer, name: string, replicas: number): Promise<void> {
  const isAvailable = async (): Promise<boolean> => {
    const { status } = await client.request<{ status?: { availableReplicas?: number } }>("GET", `${DEPLOYMENTS}/${name}`);
    return status?.availableReplicas === replicas;
  };
  await eventually(`${name} has ${replicas} pods`, isAvailable, SERVED_MS_MAX);
}

/** Image and name, without its random end, of each pod. */
async function podsOf({ client }: MemoryApiServer): Promise<readonly string[]> {
  interface Pod {
    readonly metadata: { readonly name: string };
    readonly spec: { readonly containers: readonly { readonly image: string }[] };
  }
  const { items } = await client.list<Pod & Record<string, unknown>>(PODS);
  return items.map(({ metadata, spec }) => `${metadata.name.split("-")[0]} ${spec.containers[0]?.image}`).toSorted();
}

describe.skipIf(missing)(`a cluster that is created again${missing === undefined ? "" : `, skipped: ${missing}`}`, () => {
  let [folder, redis, own, dev]: [string?, RedisServer?, Redis?, Running?] = [];
  const servers: MemoryApiServer[] = [];

  async function start(token: string): Promise<MemoryApiServer> {
    const server = await startMemoryApiServer(token);
    servers.push(server);
    for (const name of [NAMESPACE, OWN_NAMESPACE]) await server.client.request("POST", "/api/v1/namespaces", { metadata: { name } });
    return server;
  }
  const put = async (name: string, { kubeconfig }: MemoryApiServer): Promise<void> =>
    await writeFile(join(folder ?? "", name), kubeconfig, { mode: 0o600 });
  const cidsOf = (name: string): readonly string[] => [
    ...new Set(
      [...(dev?.output() ?? "").matchAll(new RegExp(`cluster added.* cluster=${name} id=([0-9a-f]{32})`, "g"))].map(([, cid = ""]) => cid),
    ),
  ];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-e2e-recreated-"));
    redis = await startRedis();
    own = new Redis(redis.url);
    for (const name of ["moved", "same"]) {
      const server = await start(`${name}-canary`);
      await put(name, server);
      await createDeployment(server, "web", 3, "former:1");
      await createDeployment(server, "gone", 2, "former:1");
    }
    const flags = ["--clusters", folder, "--allow", "loopback", "insecure", "--lease-namespace", OWN_NAMESPACE, "--redis", redis.url];
    dev = deltaloop(["dev", "--act", ...flags], DEV_SECRETS);
    for (const server of servers)
      for (const [name, replicas] of [["web", 3] as const, ["gone", 2] as const]) await whenAvailable(server, name, replicas);
  });
  afterAll(async () => {
    if (process.env["CLUSTERS_LOG"] !== undefined) process.stderr.write(dev?.output() ?? "");
    own?.disconnect();
    await dev?.stop();
    await Promise.all([redis?.stop(), ...servers.map((server) => server.stop())]);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  it("at another address has a cache of its own, and the keys of the former one are deleted", async () => {
    const [former] = servers;
    await former!.die();
    const server = await start("moved-again-canary");
    await createDeployment(server, "web", 1, "new:1");
    await put("moved", server);
    const from = performance.now();
    await whenAvailable(server, "web", 1);
    measured(`a cluster created again at another address is served after ${(performance.now() - from).toFixed(0)} ms`);
    expect(await podsOf(server)).toEqual(["web new:1"]);
    expect(new Set(server.requests.map((request) => request.split(" ").at(-1)))).toEqual(new Set(["moved-again-canary"]));
    const cids = cidsOf("moved");
    expect(cids).toHaveLength(2);
    const isForgotten = async (): Promise<boolean> => (await own?.keys(`dl:dev:{${cids[0]}}:*`))?.length === 0;
    await eventually("the keys of the former cluster are deleted", isForgotten, FORGOTTEN_MS_MAX);
    expect(await own?.exists(`dl:dev:{${cids[1]}}:ep`)).toBe(1);
  });

  it("at the same address with versions that continue the former one's is another cluster, with a new epoch", async () => {
    const [, former] = servers;
    const port = Number(new URL(former!.url).port);
    const server = await start("same-canary");
    await createDeployment(server, "web", 1, "new:1");
    for (let i = 0; i < WRITES; i++) await server.client.request("POST", "/api/v1/namespaces", { metadata: { name: `n-${i}` } });
    await server.die();
    const [epoch] = (await own?.hmget(`dl:dev:{${cidsOf("same")[0]}}:ep`, "epoch")) ?? [];
    await former!.die();
    const from = performance.now();
    await server.comeBack(port);
    await whenAvailable(server, "web", 1);
    measured(`a cluster created again at the same address is served after ${(performance.now() - from).toFixed(0)} ms`);
    expect(await podsOf(server)).toEqual(["web new:1"]);
    expect(server.requests.filter((request) => request.includes("gone-"))).toEqual([]);
    expect((await own?.hmget(`dl:dev:{${cidsOf("same")[0]}}:ep`, "epoch"))?.[0]).not.toBe(epoch);
    expect(dev?.output()).toContain("is another cluster now");
  });
});
