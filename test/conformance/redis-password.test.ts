/**
 * The Redis password changes while the whole system runs (docs/internals/threat-model.md, Rotation): a function reconnects without a
 * redeployment, the watcher exits with 4 and must be restarted. On a real server, with secrets in files.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { readClusterIdentity } from "../../shared/kube/client/cluster-id.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { startMemoryCluster } from "../../infra/local/memory-cluster.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { redisClient } from "../../shared/store/redis/client.ts";
import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import { deployed } from "../../shared/controllers/lambda/deployed.ts";
import { doorbellsVariable } from "../../shared/controllers/registry/names.ts";
import { canary, found } from "../support/canaries.ts";
import { deltaloop } from "../support/e2e.ts";
import { eventually } from "../support/eventually.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";

const CLUSTER = "0123456789ab";
const NOBODY = "http://127.0.0.1:9/q";
/** The watcher checks its secrets every 10 s. */
const WATCHER_MS_MAX = 30_000;

const missing = ensureRedisServer();
describe.skipIf(missing !== undefined)(`a changed password of Redis${missing === undefined ? "" : ` (${missing})`}`, () => {
  let folder: string;
  let server: RedisServer;
  let admin: Redis;
  let environment: Record<string, string>;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-password-"));
    server = await startRedis();
    admin = new Redis(server.url);
    const secret = async (name: string, value: string): Promise<string> => {
      await writeFile(join(folder, name), value);
      return `file:${join(folder, name)}`;
    };
    environment = {
      DELTALOOP_DEPLOYMENT: "test",
      DELTALOOP_CLUSTER: CLUSTER,
      DELTALOOP_MAC_KEY_SECRET: await secret("mac", "a mac key of the tests"),
      DELTALOOP_DIGEST_KEY_SECRET: await secret("digest", "a digest key of the tests"),
      DELTALOOP_REDIS_SECRET: await secret("redis", canary("first")),
      DELTALOOP_REDIS_URL: server.url,
      DELTALOOP_KUBE_SERVER: "http://127.0.0.1:9",
      DELTALOOP_DELTAS_URL: NOBODY,
      DELTALOOP_SQS_ENDPOINT: NOBODY,
      DELTALOOP_METRICS: "none",
      DELTALOOP_LOG_LEVEL: "error",
      ...Object.fromEntries(CONTROLLERS.map((name) => [doorbellsVariable(name), NOBODY])),
    };
    await only("first");
  });
  afterAll(async () => {
    admin.disconnect();
    await server.stop();
    await rm(folder, { recursive: true });
  });

  /** Makes this the only password; Redis closes connections with another one. */
  async function only(name: string): Promise<void> {
    await admin.call("ACL", "SETUSER", "default", "resetpass", `>${canary(name)}`);
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  }

  it("DE3 only the sweeper starts without the keys for MACs and digests", async () => {
    const { DELTALOOP_MAC_KEY_SECRET: _mac, DELTALOOP_DIGEST_KEY_SECRET: _digest, ...keyless } = environment;
    const start = (component: "sweep" | "replicaset") =>
      deployed(
        component,
        (wiring) => async () => {
          const record = await wiring.cluster(CLUSTER)?.store.epoch();
          await wiring.close();
          return record ?? "no epoch";
        },
        { ...keyless, DELTALOOP_MAC_KEY_SECRET: "" },
      );
    expect(await start("sweep")()).toBe("no epoch");
    await expect(start("replicaset")()).rejects.toThrow("DELTALOOP_DIGEST_KEY: is missing");
  });

  it("a function whose password is rejected reads the new password, reconnects once and closes its former connection", async () => {
    let made = 0;
    let close: (() => Promise<void>) | undefined;
    const handler = deployed(
      "sweep",
      (wiring) => {
        made++;
        close = wiring.close;
        return async () => await wiring.cluster(CLUSTER)?.store.epoch();
      },
      environment,
    );
    for (let i = 0; i < 2; i++) expect(await handler()).toBeUndefined();
    expect(made).toBe(1);
    const clients = async (): Promise<number> =>
      String(await admin.call("CLIENT", "LIST", "TYPE", "normal"))
        .trim()
        .split("\n").length;
    expect(await clients()).toBe(2);

    await writeFile(join(folder, "redis"), canary("second"));
    await handler();
    expect(made).toBe(1); // no call was rejected, and the secrets were read recently
    await only("second");
    await eventually("it is let in again", async () => {
      await handler();
      return true;
    });
    expect(made).toBe(2);
    for (let i = 0; i < 2; i++) expect(await handler()).toBeUndefined();
    expect(made).toBe(2);
    await eventually("the former one's connection has ended", async () => (await clients()) === 2);
    await close?.();
  });

  it("the password does not appear in an error, even when Lambda prints it completely", async () => {
    const url = new URL(server.url);
    url.password = canary("wrong");
    const client = redisClient({ url: url.href, cluster: false });
    const errors: unknown[] = [];
    client.on("error", (error) => errors.push(error));
    errors.push(await client.ping().catch((error: unknown) => error));
    client.disconnect();
    expect(String(errors[0])).toContain("WRONGPASS");
    expect(found(errors.map((error) => inspect(error, { depth: Infinity, showHidden: true })))).toEqual([]);
  });

  it("makes the watcher exit with code 4, and the restarted watcher is accepted", async () => {
    const cluster = await startMemoryCluster();
    try {
      const config = await kubeHttpConfigFrom(cluster.kubeconfig, { component: "e2e" });
      const { cid } = await readClusterIdentity(createKubeHttp(config));
      const own = { ...environment, DELTALOOP_CLUSTER: cid, DELTALOOP_SECRETS_SECONDS: "1", DELTALOOP_LOG_LEVEL: "info" };
      const start = () => deltaloop(["watch", "--kubeconfig", cluster.kubeconfig], own);
      const watcher = start();
      await watcher.line("epoch opened");
      await writeFile(join(folder, "redis"), canary("third"));
      await only("third");
      const giveUp = setTimeout(() => void watcher.stop(), WATCHER_MS_MAX);
      const { code } = await watcher.exited;
      clearTimeout(giveUp);
      expect(code).toBe(4);
      expect(watcher.output()).toContain("exiting so that the supervisor restarts the watcher");
      const next = start();
      await eventually("it has read the cache", () => next.output().includes("leading"));
      await next.stop();
      expect(found([watcher.output(), next.output()])).toEqual([]);
    } finally {
      await cluster.stop();
    }
  }, 60_000);
});
