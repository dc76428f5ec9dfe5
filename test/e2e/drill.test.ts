/**
 * What would be deployed, as it would be deployed: `serverless deploy` of our own serverless.yml to LocalStack, the zips invoked by
 * LocalStack's event source mappings, a real Redis, the watcher as a process, a real control plane and the tokens of our own
 * service accounts; where there is no control plane, the API server in memory. Nodes are scripted.
 *
 * Catches: a template that does not deploy or leaves something behind, a bundle that lacks what it needs, a handler that misreads
 * what event source mappings send or expect back, a permission or variable that only the emulators in process do without, content
 * that blocks a queue, a message that dies unnoticed, work or pods lost or doubled by a deployment, environments that are not reused,
 * processes that outlive their deployment, a template's or an annotation's value in a message, in Redis or in a log.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";

import { GetQueueAttributesCommand, ListQueuesCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { kubeAccess } from "../../cli/support/kube-access.ts";
import { startMemoryCluster } from "../../infra/local/memory-cluster.ts";
import { startLocal } from "../../infra/local/stack.ts";
import type { LocalDeltaloop } from "../../infra/local/stack.ts";
import { localStackVenv } from "../../infra/local/venv.ts";
import { redisClient } from "../../shared/adapters/redis/client.ts";
import { sqsClient } from "../../shared/adapters/sqs/client.ts";
import { CONTROLLERS } from "../../shared/api/resources.ts";
import { ENVELOPE_VERSION } from "../../shared/cache/envelope.ts";
import { signBody } from "../../shared/cache/signed-body.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { bodyText, canary, canaryAnnotations, canaryContainer, CHANGE_CAUSE, found } from "../support/canaries.ts";
import { eventually, isRunning, measured, startCluster } from "../support/e2e.ts";
import { least, momentsOf, most, podsCreated, recordHistory } from "../support/history.ts";
import { ensureRedisServer } from "../support/redis.ts";
import { personOf } from "../support/person.ts";
import type { Person } from "../support/person.ts";

const START_MS_MAX = 240_000;
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const PODS = "/api/v1/namespaces/default/pods";
const REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets";

interface Deployment {
  readonly metadata: { readonly generation: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly availableReplicas?: number;
  };
}

interface Pod {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec: { readonly containers: readonly { readonly image: string }[] };
}

/** What a deployment makes besides queues, and how to ask for it. */
const LISTS = [
  ["lambda", "/2015-03-31/functions/"],
  ["lambda", "/2015-03-31/event-source-mappings/"],
  ["s3", "/"],
  ["iam", "/?Action=ListRoles&Version=2010-05-08"],
  ["monitoring", "/?Action=DescribeAlarms&Version=2010-08-01"],
  ["events", "/", "AWSEvents.ListRules"],
  ["logs", "/", "Logs_20140328.DescribeLogGroups"],
] as const;

/** LocalStack reads the service from it and verifies nothing. */
const credential = (service: string) =>
  `AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/${service}/aws4_request, SignedHeaders=host, Signature=none`;

interface SomeCluster {
  readonly client: Person;
  readonly kubeconfig: string;
  readonly leaseNamespace: string;
  stop(): Promise<void>;
}

async function realCluster(): Promise<SomeCluster> {
  const { client, rolesKubeconfig, stop } = await startCluster();
  return { client, kubeconfig: rolesKubeconfig, leaseNamespace: "deltaloop", stop };
}

async function memoryCluster(): Promise<SomeCluster> {
  const { client, ...cluster } = await startMemoryCluster();
  return { ...cluster, client: personOf(client), leaseNamespace: "kube-system" };
}

const venv = await localStackVenv();
const missing = "missing" in venv ? venv.missing : ensureRedisServer();
if (missing !== undefined) {
  process.stderr.write(`!!!!  deployed to LocalStack cannot run: ${missing}\n`);
  it.skip(`deployed to LocalStack: ${missing}`);
} else {
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) process.stderr.write(`!!!!  deployed to LocalStack, on the API server in memory: ${binaries.missing}\n`);
  suite("missing" in binaries ? memoryCluster : realCluster);
}

function suite(startSomeCluster: () => Promise<SomeCluster>): void {
  describe("deployed to LocalStack", () => {
    let cluster: SomeCluster;
    let local: LocalDeltaloop;
    let sqs: ReturnType<typeof sqsClient>;
    beforeAll(async () => {
      const from = performance.now();
      cluster = await startSomeCluster();
      const { kubeconfig, leaseNamespace } = cluster;
      local = await startLocal({ access: (role) => kubeAccess({ kubeconfig }, role, role), kubeconfig, leaseNamespace, mode: "act" });
      sqs = sqsClient({ endpoint: local.localStack.endpoint });
      measured(`LocalStack started, deployed to and ready after ${seconds(from)}`);
    }, START_MS_MAX);
    afterAll(async () => {
      sqs?.destroy();
      await local?.stop();
      await cluster?.stop();
    });

    const deploymentUrl = (name: string) => `${DEPLOYMENTS}/${name}`;
    const log = () => readFile(local.localStack.logFile, "utf8");

    async function create(name: string, replicas: number, spec: object = {}): Promise<void> {
      const labels = { app: name };
      await cluster.client.request("POST", DEPLOYMENTS, {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name },
        spec: {
          replicas,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [{ name, image: "shop:1" }] } },
          ...spec,
        },
      });
    }

    const patch = (name: string, spec: object) =>
      cluster.client.request("PATCH", deploymentUrl(name), { spec }, "application/strategic-merge-patch+json");

    const read = async (name: string) => (await cluster.client.request("GET", deploymentUrl(name))) as unknown as Deployment;

    /** `replicas` pods of `image`, all available, none else, and the status says so. */
    async function rolledOut(name: string, replicas: number, image: string, timeoutMs = 60_000): Promise<void> {
      const from = performance.now();
      await eventually(
        `${name} has ${replicas} of ${image}`,
        async () => {
          const { metadata, status } = await read(name);
          const { items } = await cluster.client.list(PODS, { labelSelector: `app=${name}` });
          const pods = (items as unknown as readonly Pod[]).filter((pod) => pod.metadata.deletionTimestamp === undefined);
          return (
            status?.observedGeneration === metadata.generation &&
            [status.replicas, status.updatedReplicas, status.availableReplicas, pods.length].every((count) => count === replicas) &&
            pods.every(({ spec }) => spec.containers[0]?.image === image)
          );
        },
        timeoutMs,
      );
      measured(`${name}: ${replicas} of ${image} after ${seconds(from)}`);
    }

    it("creates, scales and rolls a Deployment", async () => {
      await create("web", 3);
      await rolledOut("web", 3, "shop:1");
      await patch("web", { replicas: 6 });
      await rolledOut("web", 6, "shop:1");
      await patch("web", { template: { spec: { containers: [{ name: "web", image: "shop:2" }] } } });
      await rolledOut("web", 6, "shop:2");
    });

    it("keeps environments warm: many invocations, few processes; what the functions log is in LocalStack's log", async () => {
      const text = await log();
      const started = text.match(/deltaloop-local-apply-deltas: environment started/g) ?? [];
      const invoked = text.match(/deltaloop-local-apply-deltas: START RequestId/g) ?? [];
      expect(started.length).toBeLessThanOrEqual(2);
      expect(invoked.length).toBeGreaterThan(started.length * 2);
      expect(text).toMatch(/deltaloop-local-sync-replicaset: REPORT RequestId/);
    });

    it("no canary is in a message, in Redis or in a log", async () => {
      const name = "secretive";
      const messages = new Set<string>();
      const watched = new AbortController();
      const watching = watchMessages(messages, watched.signal);
      const template = { metadata: { labels: { app: name } }, spec: { containers: [canaryContainer(name, "shop:1")] } };
      await cluster.client.request("POST", "/api/v1/namespaces/default/secrets", {
        metadata: { name },
        data: { token: Buffer.from(canary("secret")).toString("base64") },
      });
      await cluster.client.request("POST", "/api/v1/namespaces/default/configmaps", {
        metadata: { name },
        data: { url: canary("configmap") },
      });
      await create(name, 2, { template });
      const annotate = () =>
        cluster.client.request(
          "PATCH",
          deploymentUrl(name),
          { metadata: { annotations: canaryAnnotations() } },
          "application/merge-patch+json",
        );
      await annotate();
      await rolledOut(name, 2, "shop:1");
      await eventually("the ReplicaSet says why", async () => {
        const { items } = await cluster.client.list(REPLICA_SETS, { labelSelector: `app=${name}` });
        return JSON.stringify(items).includes(canaryAnnotations()[CHANGE_CAUSE] ?? "none");
      });
      watched.abort();
      await watching;
      const redis = await dump();
      expect({ messages: [...messages].some((text) => text.includes(name)), redis: redis.some((text) => text.includes(name)) }).toEqual({
        messages: true,
        redis: true,
      });
      measured(`looked for canaries in ${messages.size} messages and ${redis.length} texts of Redis`);
      expect({ messages: found([...messages]), redis: found(redis), log: found([await log()]) }).toEqual({
        messages: [],
        redis: [],
        log: [],
      });
    });

    it("a poison message is quarantined by name and blocks nobody, not even its own group", async () => {
      const nobodys = await send("not an envelope");
      const ours = await send(signed({ v: ENVELOPE_VERSION, c: local.cluster }));
      await eventually("ours is quarantined", async () => (await local.store.quarantined()).some(({ what }) => what === ours));
      await eventually("the other one is named", async () =>
        (await log()).split("\n").some((line) => line.includes('"forged message"') && line.includes(nobodys)),
      );
      expect((await local.store.forgeries()).map(({ messageId }) => messageId)).toContain(nobodys);
      await create("after", 2);
      await rolledOut("after", 2, "shop:1");
      await eventually("its queue is empty", async () => (await waiting()).every((count) => count === 0), 10_000);
    });

    it("a message that fails every time dies, and with it everything is listed again", async () => {
      const before = await generations();
      const from = performance.now();
      // Of a version that nobody here understands, so whose resource it is cannot be told either.
      const id = await send(signed({ v: ENVELOPE_VERSION + 1, c: local.cluster }));
      const shut = CONTROLLERS.map((controller) =>
        eventually(
          `the gate of ${controller} shuts because of it`,
          async () => {
            const gate = await local.store.gate(controller);
            return !gate.open && gate.reason.includes("SUSPECT") && gate.reason.includes(id) && gate.reason;
          },
          60_000,
        ),
      );
      await Promise.all(shut);
      measured(`given up after three tries and ${seconds(from)}: ${await shut[0]}`);
      const at = performance.now();
      await eventually("all gates are open again", async () =>
        (await Promise.all(CONTROLLERS.map((controller) => local.store.gate(controller)))).every(({ open }) => open),
      );
      measured(`listed again after ${seconds(at)}`);
      const after = await generations();
      expect(Object.keys(after).toSorted()).toEqual(["deployments", "pods", "replicasets", "replicationcontrollers"]);
      for (const [resource, generation] of Object.entries(after)) expect(generation, resource).toBeGreaterThan(before[resource] ?? 0);
      const buried = (await local.store.quarantined()).filter(({ what }) => what === id);
      expect(buried).toMatchObject([
        { where: expect.stringContaining("dead-letter queue"), why: expect.stringContaining(`version ${ENVELOPE_VERSION + 1}`) },
      ]);
      expect(await log()).toMatch(new RegExp(`deltaloop-local-dead-deltas: .*${id}`));
      await create("revived", 2);
      await rolledOut("revived", 2, "shop:1");
    });

    it("deployed again in the middle of a rollout, it goes on: no pod twice, no size out of bounds", async () => {
      const replicas = 10;
      const rollingUpdate = { maxSurge: 1, maxUnavailable: 0 };
      const history = await recordHistory(cluster.client, "default");
      await create("steady", replicas, { minReadySeconds: 4, strategy: { type: "RollingUpdate", rollingUpdate } });
      await rolledOut("steady", replicas, "shop:1");
      const changesBefore = history.changes().length;
      const logBefore = (await log()).length;
      await patch("steady", { template: { spec: { containers: [{ name: "steady", image: "shop:2" }] } } });
      await eventually("the rollout is on its way", async () => ((await read("steady")).status?.updatedReplicas ?? 0) > 0);

      const mark = "this is the second edition";
      const from = performance.now();
      await local.redeploy(`console.log(${JSON.stringify(mark)});`);
      const { updatedReplicas = 0 } = (await read("steady")).status ?? {};
      measured(`deployed again after ${seconds(from)}, with ${updatedReplicas} of ${replicas} pods updated`);
      expect(updatedReplicas).toBeLessThan(replicas);
      await rolledOut("steady", replicas, "shop:2", 120_000);
      for (const name of ["apply-deltas", "sync-deployment", "sync-replicaset"])
        expect((await log()).slice(logBefore), name).toContain(`deltaloop-local-${name}: ${mark}`);

      await history.stop();
      const changes = history.changes();
      const moments = momentsOf(changes, "steady").filter(({ change }) => change.revision >= (changes[changesBefore]?.revision ?? 0n));
      expect(most(moments, ({ asked }) => asked)).toBeLessThanOrEqual(replicas + rollingUpdate.maxSurge);
      expect(least(moments, ({ ready }) => ready)).toBeGreaterThanOrEqual(replicas);
      expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
      const created = Object.entries(podsCreated(changes)).filter(([rs]) => rs.startsWith("steady-"));
      expect(created.map(([, count]) => count)).toEqual([replicas, replicas]);
    });

    /** To the group of a lane of pods. @returns its name in the queue */
    const signed = (fields: object): string => signBody(local.signer, local.cluster, JSON.stringify(fields));

    async function send(body: string): Promise<string> {
      const to = {
        QueueUrl: local.queueUrls.deltas,
        MessageGroupId: `${local.cluster}.pods.0`,
        MessageDeduplicationId: createHash("sha256").update(body).digest("hex"),
      };
      return (await sqs.send(new SendMessageCommand({ ...to, MessageBody: body }))).MessageId ?? "";
    }

    /** Bodies in Q1 and the doorbells' queues, waiting or in flight, as LocalStack shows them to whoever asks. */
    async function watchMessages(bodies: Set<string>, signal: AbortSignal): Promise<void> {
      const urls = [local.queueUrls.deltas, ...Object.values(local.queueUrls.doorbells)];
      while (!signal.aborted) {
        for (const url of urls) {
          const path = `/_aws/sqs/messages?ShowInvisible=true&QueueUrl=${encodeURIComponent(url)}`;
          const answer = await fetch(`${local.localStack.endpoint}${path}`, { headers: { accept: "application/json" } });
          for (const [, body] of (await answer.text()).matchAll(/"Body": ?("(?:[^"\\]|\\.)*")/g))
            bodies.add(bodyText(String(JSON.parse(body ?? '""'))));
        }
      }
    }

    /** Every key of Redis and whatever stands under it. */
    async function dump(): Promise<readonly string[]> {
      const redis = redisClient({ url: local.redisUrl, cluster: false });
      try {
        const values = (await redis.keys("*")).map(async (key) => {
          const type = await redis.type(key);
          if (type === "hash") return [key, ...Object.entries(await redis.hgetall(key)).flat()];
          if (type === "zset") return [key, ...(await redis.zrange(key, "0", "-1"))];
          if (type === "set") return [key, ...(await redis.smembers(key))];
          if (type === "list") return [key, ...(await redis.lrange(key, 0, -1))];
          return [key, (await redis.get(key)) ?? ""];
        });
        return (await Promise.all(values)).flat();
      } finally {
        redis.disconnect();
      }
    }

    /** How often each resource was listed to the end, as Redis has it. */
    async function generations(): Promise<Readonly<Record<string, number>>> {
      const redis = redisClient({ url: local.redisUrl, cluster: false });
      try {
        const counts: Record<string, number> = {};
        for (const key of await redis.keys("*:m:*")) counts[key.split(":").at(-1) ?? ""] = Number(await redis.hget(key, "syncedGen"));
        return counts;
      } finally {
        redis.disconnect();
      }
    }

    /** Messages of Q1 to be had and in flight. */
    async function waiting(): Promise<readonly number[]> {
      const command = new GetQueueAttributesCommand({ QueueUrl: local.queueUrls.deltas, AttributeNames: ["All"] });
      const { Attributes } = await sqs.send(command);
      return [Attributes?.ApproximateNumberOfMessages, Attributes?.ApproximateNumberOfMessagesNotVisible].map(Number);
    }

    it("serverless remove leaves nothing behind, no process either", async () => {
      const from = performance.now();
      const pids = [...(await log()).matchAll(/environment started, pid (\d+)/g)].map(([, pid]) => Number(pid));
      expect(pids.length).toBeGreaterThan(0);
      await local.remove();
      measured(`serverless remove after ${seconds(from)}`);
      expect((await sqs.send(new ListQueuesCommand({}))).QueueUrls ?? []).toEqual([]);
      for (const [service, path, target] of LISTS) {
        const headers = { authorization: credential(service), "x-amz-target": target ?? "", "content-type": "application/x-amz-json-1.1" };
        const request =
          target === undefined ? { headers: { authorization: headers.authorization } } : { method: "POST", headers, body: "{}" };
        const answer = await fetch(`${local.localStack.endpoint}${path}`, request);
        expect(answer.status, service).toBe(200);
        expect(await answer.text(), service).not.toContain("deltaloop");
      }
      await eventually("the environments have ended", () => pids.every((pid) => !isRunning(pid)), 10_000);
    });
  });
}

function seconds(from: number): string {
  return `${((performance.now() - from) / 1000).toFixed(1)} s`;
}
