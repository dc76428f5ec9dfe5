/**
 * `deltaloop dev --act --clusters`: one deployment for a real API server and several in memory. A cluster that is unreachable, fails,
 * recovers, or is added, paused or removed does not delay the others, and a hostile cluster causes no request to another cluster.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { readFileSync } from "node:fs";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { JsonObject } from "../../shared/base/json.ts";
import { signBody } from "../../shared/controllers/cache/messages/signed-body.ts";
import { createSigner } from "../../shared/store/signer.ts";
import { sqsCalls } from "../../shared/store/sqs/calls.ts";
import { pauseFile } from "../../shared/local/clusters/read-folder.ts";
import { DEV_SECRETS } from "../support/cache-compared.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { startMemoryApiServer } from "../support/memory-clusters.ts";
import type { MemoryApiServer } from "../support/memory-clusters.ts";
import type { RawClient } from "../support/raw-client.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

const NAMESPACE = "shop";
/** Goal in ms from a new cluster's file to its first rollout. */
const SERVED_MS_MAX = 30_000;
const FORGOTTEN_MS_MAX = 60_000;
/** Limit in ms for the pods of a Deployment while other clusters fail. With one cluster they take less than a second. */
const PODS_MS_MAX = 5_000;
/** A cluster loses its Lease in an outage of more than 10 s; its watcher may then wait for a minute (informer §11.11). */
const BACK_MS_MAX = 100_000;
/** Limit for the connections of each process and of the test, however many clusters there are. */
const CONNECTIONS_MAX = 8;
/** A time in ms longer than a sweep, the expiry of a Lease, and the requeue after a lost doorbell. */
const QUIET_MS = 12_000;

function deployment(name: string, replicas = 2): JsonObject {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
    },
  };
}

const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;

/** Creates a Deployment and returns the time until its pods are available. */
async function rolledOut(client: RawClient, name: string, timeoutMs = SERVED_MS_MAX): Promise<number> {
  const from = performance.now();
  await client.request("POST", DEPLOYMENTS, deployment(name));
  await eventually(
    `the pods of ${name} are available`,
    async () => {
      const { status } = await client.request<{ status?: { availableReplicas?: number } }>("GET", `${DEPLOYMENTS}/${name}`);
      return status?.availableReplicas === 2;
    },
    timeoutMs,
  );
  return performance.now() - from;
}

async function withNamespace(server: MemoryApiServer): Promise<MemoryApiServer> {
  await server.client.request("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  return server;
}

await whereRealPartsAre("one deployment for several clusters", () => {
  describe("one deployment", () => {
    let folder: string;
    let real: Cluster;
    let redis: RedisServer;
    let own: Redis;
    let dev: Running;
    let [blue, green]: MemoryApiServer[] = [];
    const others: MemoryApiServer[] = [];
    /** A server that accepts connections and never responds. */
    const silent = createServer(() => undefined);

    const put = async (name: string, text: string): Promise<void> => await writeFile(join(folder, name), text, { mode: 0o600 });
    const cidOf = (name: string): string => new RegExp(`cluster added.* cluster=${name} id=([0-9a-f]{32})`).exec(dev.output())?.[1] ?? "";
    const keysOf = async (cid: string): Promise<readonly string[]> => await own.keys(`dl:dev:{${cid}}:*`);

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "deltaloop-e2e-clusters-"));
      [real, redis, blue, green] = await Promise.all([
        startCluster(),
        startRedis(),
        startMemoryApiServer("blue-canary").then(withNamespace),
        startMemoryApiServer("green-canary").then(withNamespace),
        new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve)),
      ]);
      await real.kubectl("create", "namespace", NAMESPACE);
      await put("real", readFileSync(real.rolesKubeconfig, "utf8"));
      await put("blue", blue.kubeconfig);
      await put("green.yaml", green.kubeconfig);
      await put(
        "silent",
        kubeconfigOf({ server: `http://127.0.0.1:${(silent.address() as AddressInfo).port}` }, { token: "silent-canary" }),
      );
      await put("bad", kubeconfigOf({ server: blue.url }, { exec: { apiVersion: "client.authentication.k8s.io/v1", command: "touch" } }));
      const url = `redis://127.0.0.1:${redis.port}`;
      own = new Redis(url);
      const flags = ["--clusters", folder, "--allow", "loopback", "insecure", "--lease-namespace", OWN_NAMESPACE, "--redis", url];
      for (const { client } of [blue, green]) await client.request("POST", "/api/v1/namespaces", { metadata: { name: OWN_NAMESPACE } });
      dev = deltaloop(["dev", "--act", ...flags], DEV_SECRETS);
      await Promise.all(["real", "blue", "green"].map(async (name) => await dev.line(`ready: cluster ${name}`)));
    });
    afterAll(async () => {
      if (process.env["CLUSTERS_LOG"] !== undefined) process.stderr.write(dev?.output() ?? "");
      own?.disconnect();
      await dev?.stop();
      silent.close();
      await Promise.all([real?.stop(), redis?.stop(), ...[blue, green, ...others].map((server) => server?.stop())]);
      await rm(folder, { recursive: true, force: true });
    });

    it("runs Deployments in each cluster while one never answers, and reports an invalid kubeconfig without its content", async () => {
      const times = await Promise.all([real.client, blue!.client, green!.client].map(async (client) => await rolledOut(client, "web")));
      measured(`POST to available, real, blue, green: ${times.map((ms) => ms.toFixed(0)).join(", ")} ms`);
      expect(dev.output()).toMatch(/error: kubeconfig rejected: bad: users\[0\]\.user\.exec: /);
      expect(dev.output()).not.toMatch(/canary/);
      const connections = String(await own.client("LIST"))
        .trim()
        .split("\n").length;
      measured(`connections to Redis: ${connections}`);
      expect(connections).toBeLessThanOrEqual(CONNECTIONS_MAX);
    });

    it("a cluster that fails and recovers delays no other cluster, and converges again", async () => {
      await green!.client.request("POST", DEPLOYMENTS, deployment("before", 2));
      await green!.die();
      const times: number[] = [];
      for (let n = 0; n < 5; n++) times.push(await rolledOut(blue!.client, `while-dead-${n}`, PODS_MS_MAX));
      times.push(await rolledOut(real.client, "while-dead", PODS_MS_MAX));
      measured(`POST to available while a cluster is dead: ${times.map((ms) => ms.toFixed(0)).join(", ")} ms`);
      await green!.client.request("POST", DEPLOYMENTS, deployment("while-dead", 2));
      await green!.comeBack();
      await eventually("green has both Deployments' pods", async () => (await green!.client.list(PODS)).items.length === 6, BACK_MS_MAX);
    });

    it("serves the cluster of a new file within 30 s, pauses it, and deletes its keys within a minute of the removal of the file", async () => {
      const red = await startMemoryApiServer("red-canary").then(withNamespace);
      others.push(red);
      await red.client.request("POST", "/api/v1/namespaces", { metadata: { name: OWN_NAMESPACE } });
      const from = performance.now();
      await put("red", red.kubeconfig);
      await rolledOut(red.client, "web");
      measured(`new file to available pods: ${(performance.now() - from).toFixed(0)} ms`);
      expect(performance.now() - from).toBeLessThan(SERVED_MS_MAX);

      await writeFile(pauseFile(folder, "red"), "");
      await dev.line("cluster paused cluster=red");
      await new Promise((resolve) => setTimeout(resolve, 2_000));
      const before = red.requests.length;
      await red.client.request("POST", DEPLOYMENTS, deployment("paused"));
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
      expect(red.requests.slice(before)).toEqual([]);
      await rm(pauseFile(folder, "red"));
      await eventually("the paused Deployment has pods", async () => (await red.client.list(PODS)).items.length === 4, SERVED_MS_MAX);

      const cid = cidOf("red");
      expect((await keysOf(cid)).length).toBeGreaterThan(10);
      await red.client.request("POST", DEPLOYMENTS, deployment("removed"));
      await rm(join(folder, "red"));
      const removedAt = performance.now();
      await dev.line("deleted the keys of a removed cluster cluster=red", FORGOTTEN_MS_MAX);
      expect(await keysOf(cid)).toEqual([]);
      measured(`removal to no keys for good: ${(performance.now() - removedAt).toFixed(0)} ms`);
      const silentFrom = red.requests.length;
      await rolledOut(blue!.client, "after-removal", PODS_MS_MAX);
      expect(red.requests.length).toBe(silentFrom);
    });

    it("a hostile cluster with another cluster's UIDs, names, messages and doorbells causes no request to it", async () => {
      const victim = blue!;
      const resources = ["deployments.apps", "replicasets.apps", "pods"] as const;
      const lists = await Promise.all(
        ["/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/api/v1/pods"].map(
          async (path) => await victim.client.list<JsonObject>(path),
        ),
      );
      const [systemNamespace, shop, ownNamespace] = await Promise.all(
        ["kube-system", NAMESPACE, OWN_NAMESPACE].map(
          async (name) => await victim.client.request<JsonObject>("GET", `/api/v1/namespaces/${name}`),
        ),
      );
      const stolen = lists.flatMap(({ items }, i) =>
        items.map((item) => {
          const copy = structuredClone(item) as { spec?: { replicas?: number } }; // replicas is a number
          if (copy.spec?.replicas !== undefined) copy.spec.replicas = 0;
          return [resources[i] ?? "", copy as JsonObject] as const;
        }),
      );
      const namespaces = [systemNamespace, shop, ownNamespace].map((each) => ["namespaces", each as JsonObject] as const);
      const quietFrom = victim.requests.length;
      const podsBefore = (await victim.client.list(PODS)).items.length;
      const hostile = await startMemoryApiServer("hostile-canary", [...namespaces, ...stolen]);
      others.push(hostile);
      await put("hostile", hostile.kubeconfig);
      await dev.line("ready: cluster hostile");
      await eventually("the hostile cluster's own pods are deleted", async () => {
        const { items } = await hostile.client.list<{ metadata: { deletionTimestamp?: string } }>(PODS);
        return items.every(({ metadata }) => metadata.deletionTimestamp !== undefined);
      });

      const file = /doctor --env (\S+env-hostile)/.exec(dev.output())?.[1] ?? "";
      const environment = parseEnv(readFileSync(file, "utf8"));
      const sqs = sqsCalls({ endpoint: environment["DELTALOOP_SQS_ENDPOINT"] ?? "" });
      const [victimId, hostileId] = [cidOf("blue"), cidOf("hostile")];
      const hostileSigner = createSigner([DEV_SECRETS.DELTALOOP_MAC_KEY], hostileId);
      const epoch = (await own.hget(`dl:dev:{${victimId}}:ep`, "epoch")) ?? "";
      const bell = { v: 1, c: victimId, ctl: "deployment", e: epoch, k: `${NAMESPACE}/web` };
      const forged = [bell, { ...bell, m: hostileSigner.sign("d", [victimId, "deployment", epoch, bell.k, "", ""]) }, { ...bell, m: 1 }];
      await sqs.call("SendMessageBatch", {
        QueueUrl: environment["DELTALOOP_DOORBELLS_DEPLOYMENT_URL"] ?? "",
        Entries: forged.map((message, i) => ({ Id: String(i), MessageBody: JSON.stringify(message) })),
      });
      const deltas = [signBody(hostileSigner, victimId, "{}"), signBody(hostileSigner, hostileId, JSON.stringify({ v: 2, c: victimId }))];
      await sqs.call("SendMessageBatch", {
        QueueUrl: environment["DELTALOOP_DELTAS_URL"] ?? "",
        Entries: deltas.map((MessageBody, i) => ({
          ...{ Id: String(i), MessageBody, MessageGroupId: `forged-${i}`, MessageDeduplicationId: `forged-${i}` },
        })),
      });
      await dev.line("functions blue: error: forged message");
      await dev.line("field c names a different cluster from the one whose key signed the message");
      await dev.line("without the signature of their cluster");
      await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
      sqs.close();
      expect(victim.requests.slice(quietFrom)).toEqual([]);
      expect((await victim.client.list(PODS)).items.length).toBe(podsBefore);
      for (const [server, canary] of [
        [blue!, "blue"],
        [green!, "green"],
        [hostile, "hostile"],
      ] as const)
        expect(new Set(server.requests.map((request) => request.split(" ").at(-1)))).toEqual(new Set([`${canary}-canary`]));
    });
  });
});
