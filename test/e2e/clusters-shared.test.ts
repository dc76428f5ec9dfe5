/**
 * `deltaloop dev --act --clusters --watchers 2`: two watcher processes share in-memory clusters. Catches: clusters that all stay with one
 * watcher, that are lost with a killed one, or that list again when they move.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { parseConfiguration } from "../../shared/controllers/lambda/configuration.ts";
import { openCache, redisStore } from "../../shared/controllers/lambda/connect.ts";
import { MEMBER_SILENT_MS } from "../../shared/store/ports/members.ts";
import { rankOf } from "../../cli/watch/nominate.ts";
import { DEV_SECRETS } from "../support/cache-compared.ts";
import { deltaloop, eventually, killHard, measured, OWN_NAMESPACE } from "../support/e2e.ts";
import type { Running } from "../support/e2e.ts";
import { startMemoryApiServer } from "../support/memory-clusters.ts";
import type { MemoryApiServer } from "../support/memory-clusters.ts";
import { ensureRedisServer, startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

const CLUSTERS = 8;
/** Joining, the wait for membership changes, and moves. */
const SHARED_MS_MAX = 60_000;
const TAKEN_OVER_MS_MAX = 40_000;
const WATCHERS_KEY = "dl:dev:watchers";
/** The cache of a cluster that was removed while no watcher ran. */
const REMOVED_KEY = `dl:dev:{${"f".repeat(32)}}:ep`;
const missing = ensureRedisServer();

describe.skipIf(missing)(`two watchers of one deployment${missing === undefined ? "" : `, skipped: ${missing}`}`, () => {
  let [folder, redis, own, dev]: [string?, RedisServer?, Redis?, Running?] = [];
  const servers: MemoryApiServer[] = [];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-e2e-shared-"));
    redis = await startRedis();
    own = new Redis(redis.url);
    await own.hset(REMOVED_KEY, "epoch", "e1");
    for (let i = 0; i < CLUSTERS; i++) {
      const server = await startMemoryApiServer(`canary-${i}`);
      servers.push(server);
      for (const name of ["shop", OWN_NAMESPACE]) await server.client.request("POST", "/api/v1/namespaces", { metadata: { name } });
      await writeFile(join(folder, `c${i}`), server.kubeconfig, { mode: 0o600 });
    }
    const flags = ["--clusters", folder, "--allow", "loopback", "insecure", "--lease-namespace", OWN_NAMESPACE, "--redis", redis.url];
    dev = deltaloop(["dev", "--act", "--watchers", "2", ...flags], DEV_SECRETS);
    for (let i = 0; i < CLUSTERS; i++) await dev.line(`ready: cluster c${i}`);
  });
  afterAll(async () => {
    if (process.env["CLUSTERS_LOG"] !== undefined) process.stderr.write(dev?.output() ?? "");
    own?.disconnect();
    await dev?.stop();
    await Promise.all([redis?.stop(), ...servers.map((server) => server.stop())]);
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  const cidOf = (i: number): string => new RegExp(`cluster added.* cluster=c${i} id=([0-9a-f]{32})`).exec(dev?.output() ?? "")?.[1] ?? "";
  const membersNow = async (): Promise<readonly string[]> => Object.keys((await own?.hgetall(WATCHERS_KEY)) ?? {});
  /** The clusters that each live watcher claims to lead. */
  async function led(): Promise<ReadonlyMap<string, readonly string[]>> {
    const all = Object.entries((await own?.hgetall(WATCHERS_KEY)) ?? {});
    const [seconds = 0] = (await own?.time()) ?? [];
    const live = all.filter(([, record]) => Number(seconds) * 1_000 - Number(record.split("\x1f")[1]) < MEMBER_SILENT_MS);
    return new Map(live.map(([id, record]) => [id, (record.split("\x1f")[3] ?? "").split(" ")[1]?.split(",").filter(Boolean) ?? []]));
  }
  /** Waits until each cluster is led by the watcher with the highest rank of those that live. */
  async function shared(watchers: number, timeoutMs: number): Promise<ReadonlyMap<string, readonly string[]>> {
    let now: ReadonlyMap<string, readonly string[]> = new Map();
    await eventually(
      `${watchers} watchers have their shares`,
      async () => {
        now = await led();
        const ids = [...now.keys()];
        return (
          ids.length === watchers &&
          servers.every((_, i) => {
            const [first = ""] = ids.toSorted((a, b) => (rankOf(a, cidOf(i)) > rankOf(b, cidOf(i)) ? -1 : 1));
            return now.get(first)?.includes(cidOf(i));
          })
        );
      },
      timeoutMs,
    );
    return now;
  }
  const fileFor = (what: string): string =>
    new RegExp(`to check ${what}, run: deltaloop doctor --env (\\S+)`).exec(dev?.output() ?? "")?.[1] ?? "";
  /** Runs a command with the environment file that `dev` names after `what`. */
  async function beside(what: string, ...args: readonly string[]): Promise<{ readonly code: number | null; readonly output: string }> {
    expect(readFileSync(fileFor(what), "utf8")).toContain(`DELTALOOP_LEASE_NAMESPACE='${OWN_NAMESPACE}'`);
    const command = deltaloop([...args, "--env", fileFor(what)]);
    const { code } = await command.exited;
    return { code, output: command.output() };
  }
  const lists = (): number =>
    servers.flatMap(({ requests }) => requests).filter((request) => /^GET \/api\/v1\/pods\?(?!.*watch)/.test(request)).length;

  it("divide the clusters by rank, and a move lists nothing again", async () => {
    const listed = lists();
    const now = await shared(2, SHARED_MS_MAX);
    const counts = [...now.values()].map(({ length }) => length);
    measured(`clusters of each watcher: ${counts.join(", ")}`);
    expect(counts.reduce((sum, each) => sum + each)).toBe(CLUSTERS);
    expect(lists()).toBe(listed);
    for (const { client } of servers) {
      const lease = await client.list<{ spec: { holderIdentity: string } }>(
        `/apis/coordination.k8s.io/v1/namespaces/${OWN_NAMESPACE}/leases`,
      );
      expect(lease.items).toHaveLength(1);
    }
  });

  it("are healthy in the eyes of the doctor, for all clusters and for one of them", async () => {
    const [all, named, one] = await Promise.all([
      beside("all clusters", "doctor"),
      beside("all clusters", "doctor", "--clusters", folder ?? ""),
      beside("c0", "doctor"),
    ]);
    expect(all.output).toContain(`${CLUSTERS} clusters, 0 with failures`);
    expect(named.output).toContain(`${CLUSTERS} clusters, 0 with failures`);
    expect(one.output).toMatch(/cluster\s+[0-9a-f]{32}\s+has the UID of its epoch/);
    expect([all, named, one].map(({ code }) => code)).toEqual([0, 0, 0]);
  });

  it("are resumed by name after a foreign write, and their keys are reported", async () => {
    const configuration = parseConfiguration(parseEnv(readFileSync(fileFor("c0"), "utf8")));
    const { store } = openCache(
      configuration,
      redisStore(configuration.redis, () => undefined),
    );
    const write = { resource: "replicasets", key: "shop/web", manager: "kube-controller-manager", atMs: Date.now() - 60_000 } as const;
    await store.reportForeignWrites({ namespaces: [write] }, Date.now());
    await store.close();
    const resumed = await beside("all clusters", "resume", "c0");
    expect(resumed).toEqual({ code: 0, output: expect.stringMatching(/kube-controller-manager[^]*\nresumed: due keys/) });
    const [byFile, keys] = await Promise.all([beside("c0", "resume"), beside("all clusters", "keys")]);
    expect(byFile).toEqual({ code: 0, output: "nothing is stopped\n" });
    expect(keys.code).toBe(0);
    for (let i = 0; i < CLUSTERS; i++) expect(keys.output).toContain(`c${i}: deployments: `);
  });

  it("serve all clusters after one was killed, and divide them again after its restart", async () => {
    const before = await membersNow();
    const pid = Number(/watcher2 started.*pid=(\d+)/.exec(dev?.output() ?? "")?.[1]);
    const killedAt = performance.now();
    killHard(pid);
    await Promise.all(
      servers.map(async ({ client }, i) => {
        const labels = { app: "web" };
        const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
        const path = "/apis/apps/v1/namespaces/shop/deployments";
        const body = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", namespace: "shop" } };
        await client.request("POST", path, { ...body, spec: { replicas: 2, selector: { matchLabels: labels }, template } });
        const available = async (): Promise<boolean> => {
          const { status } = await client.request<{ status?: { availableReplicas?: number } }>("GET", `${path}/web`);
          return status?.availableReplicas === 2;
        };
        await eventually(`c${i} has its pods`, available, TAKEN_OVER_MS_MAX);
      }),
    );
    measured(`Kill of a watcher to available pods in all clusters: ${(performance.now() - killedAt).toFixed(0)} ms`);
    const after = await shared(2, SHARED_MS_MAX);
    expect([...after.keys()].filter((id) => before.includes(id))).toHaveLength(1);
    expect(await own?.exists(REMOVED_KEY)).toBe(0);
  });
});
