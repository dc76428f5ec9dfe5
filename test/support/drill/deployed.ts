/**
 * Deltaloop deployed to LocalStack for a cluster, with the actions of a drill: applies Deployments, rolls them, injects a fault in the
 * middle, and checks the outcome.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { GetQueueAttributesCommand, ListQueuesCommand } from "@aws-sdk/client-sqs";
import type { SQSClient } from "@aws-sdk/client-sqs";
import { expect } from "vitest";

import { environmentFile } from "../../../cli/cluster/environment-file.ts";
import { kubeAccess } from "../../../shared/kube/kubeconfig/kube-access.ts";
import { isRolledOut, updatedOf } from "../../../cli/dev/rollout.ts";
import type { Rollout } from "../../../cli/dev/rollout.ts";
import type { Edition } from "../../../infra/local/deploy.ts";
import { startMemoryCluster } from "../../../infra/local/memory-cluster.ts";
import { startLocal } from "../../../infra/local/stack.ts";
import type { LocalDeltaloop } from "../../../infra/local/stack.ts";
import { sqsClient } from "../../../shared/store/sqs/client.ts";
import type { Cache } from "../../../shared/controllers/lambda/connect.ts";
import { isSame } from "../cache-compared.ts";
import { deltaloop, eventually, measured, OWN_NAMESPACE, startCluster } from "../e2e.ts";
import type { Cluster } from "../e2e.ts";
import { least, momentsOf, most, podsCreated, recordHistory } from "../history.ts";
import { rawClientOf } from "../raw-client.ts";
import type { RawClient } from "../raw-client.ts";

export interface SomeCluster {
  readonly client: RawClient;
  readonly kubeconfig: string;
  readonly leaseNamespace: string;
  /** Absent: Redis is in memory. */
  readonly real?: Cluster;
  stop(): Promise<void>;
}

export async function realCluster(): Promise<SomeCluster> {
  const real = await startCluster();
  return { client: real.client, kubeconfig: real.rolesKubeconfig, leaseNamespace: OWN_NAMESPACE, real, stop: real.stop };
}

export async function memoryCluster(): Promise<SomeCluster> {
  const { client, ...cluster } = await startMemoryCluster();
  return { ...cluster, client: rawClientOf(client), leaseNamespace: "kube-system" };
}

interface Pod {
  readonly metadata: { readonly deletionTimestamp?: string };
  readonly spec: { readonly containers: readonly { readonly image: string }[] };
}

const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const PODS = "/api/v1/namespaces/default/pods";
const SETTLED_MS_MAX = 60_000;
/** The strategy of rollouts during the drill: at most one surge pod, and no unavailable pod. */
const ROLLING = { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } } as const;

/** The delay until a pod of a rollout is ready; the last pod waits until the disruption ends. */
const PACE_SECONDS = 2;
/** Less than a Deployment's progressDeadlineSeconds. */
const HELD_SECONDS = 500;
const ROLLED_OUT_MS_MAX = 90_000;
const HOLD_POLL_MS = 200;

export interface Deployed {
  readonly cluster: SomeCluster;
  readonly local: LocalDeltaloop;
  readonly sqs: SQSClient;
  /** The logs of LocalStack and of the functions. */
  log(): Promise<string>;
  create(name: string, replicas: number, spec?: object): Promise<void>;
  patch(name: string, spec: object): Promise<void>;
  /** Waits until `replicas` pods of `image` are available, no others exist, and the status reports it. */
  rolledOut(name: string, replicas: number, image: string, timeoutMs?: number): Promise<void>;
  withCache<T>(use: (cache: Cache) => Promise<T>): Promise<T>;
  /**
   * Runs a verb of the command with the watcher's environment as `--env`. @returns its output @throws when its exit code is
   * not 0
   */
  run(...args: readonly string[]): Promise<string>;
  /**
   * Checks that nothing was lost: the cache equals the API server, no message is in a dead-letter queue, and the doctor finds no
   * problem.
   */
  settled(): Promise<void>;
  /**
   * Rolls the Deployment `steady` to its next image, calls `strike` when some of its pods are new, and waits until the
   * rollout has settled. The rollout continues meanwhile, and does not end before the disruption. @throws when a pod
   * was created twice, a bound was violated at any time, or anything was lost
   */
  inTheMiddleOfARollout(what: string, strike: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}

export interface DeployedOptions {
  readonly startCluster: () => Promise<SomeCluster>;
  readonly edition: Edition;
  /** The token of a function's service account; undefined: the kubeconfig's. */
  readonly token?: (cluster: SomeCluster, role: string) => Promise<string | undefined>;
}

export async function startDeployed({ startCluster: start, edition, token }: DeployedOptions): Promise<Deployed> {
  const from = performance.now();
  const cluster = await start();
  const { kubeconfig, leaseNamespace, client, real } = cluster;
  const access = async (role: string): ReturnType<typeof kubeAccess> => {
    const config = await kubeAccess({ kubeconfig }, role, role);
    const own = role === "deltaloop-watcher" ? undefined : await token?.(cluster, role);
    return own === undefined ? config : { ...config, token: () => Promise.resolve(own) };
  };
  const local = await startLocal({ access, kubeconfig, leaseNamespace, mode: "act", edition });
  const sqs = sqsClient({ endpoint: local.localStack.endpoint });
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-drill-"));
  measured(`LocalStack started, deployed to and ready after ${seconds(from)}`);

  let images = 0;
  const deployed: Deployed = {
    cluster,
    local,
    sqs,
    log: () => readFile(local.localStack.logFile, "utf8"),

    async create(name, replicas, spec = {}) {
      const labels = { app: name };
      const template = { metadata: { labels }, spec: { containers: [{ name, image: "shop:1" }] } };
      await client.request("POST", DEPLOYMENTS, {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name },
        spec: { replicas, selector: { matchLabels: labels }, template, ...spec },
      });
    },

    async patch(name, spec) {
      await client.request("PATCH", `${DEPLOYMENTS}/${name}`, { spec }, "application/strategic-merge-patch+json");
    },

    async rolledOut(name, replicas, image, timeoutMs = 60_000) {
      const waitsFrom = performance.now();
      await eventually(
        `${name} has ${replicas} of ${image}`,
        async () => {
          const seen = await read(name);
          const { items } = await client.list(PODS, { labelSelector: `app=${name}` });
          const pods = (items as unknown as readonly Pod[]).filter((pod) => pod.metadata.deletionTimestamp === undefined);
          return (
            isRolledOut(seen) &&
            [seen.spec.replicas, pods.length].every((count) => count === replicas) &&
            pods.every(({ spec }) => spec.containers[0]?.image === image)
          );
        },
        timeoutMs,
      );
      measured(`${name}: ${replicas} of ${image} after ${seconds(waitsFrom)}`);
    },

    async withCache(use) {
      const cache = await local.openCache();
      try {
        return await use(cache);
      } finally {
        await cache.store.close();
      }
    },

    async run(...args) {
      const file = join(folder, "watcher.env");
      await writeFile(file, environmentFile(local.environment()), { mode: 0o600 });
      const command = deltaloop([...args, "--env", file], {}, join(local.root(), "cli/main.ts"));
      const { code } = await command.exited;
      if (code !== 0) throw new Error(`deltaloop ${args.join(" ")}: exit ${code}:\n${command.output()}`);
      return command.output();
    },

    async settled() {
      const list = async <T>(path: string): Promise<readonly T[]> => (await client.list(path)).items as readonly T[]; // the path is that of a Deployment
      const same = (): Promise<true> => deployed.withCache(({ store }) => isSame(store, { list }));
      await eventually("the cache is what the API server has", same, SETTLED_MS_MAX);
      expect(await deadMessages()).toEqual([]);
      if (real === undefined) return;
      await deployed.run("doctor", "--kubeconfig", kubeconfig, "--lease-namespace", leaseNamespace);
    },

    async inTheMiddleOfARollout(what, strike) {
      if (images === 0) {
        await deployed.create("steady", 5, { strategy: ROLLING });
        await deployed.rolledOut("steady", 5, "shop:1");
        images = 1;
      }
      const { spec } = await read("steady");
      const image = `shop:${++images}`;
      await eventually("those of the former rollout are gone", async () => {
        const { items } = await client.list(PODS, { labelSelector: "app=steady" });
        return items.length === spec.replicas;
      });
      const history = await recordHistory(client, "default");
      try {
        const before = history.changes().length;
        const template = { spec: { containers: [{ name: "steady", image }] } };
        await deployed.patch("steady", { minReadySeconds: PACE_SECONDS, template });
        await eventually("the rollout is on its way", async () => updatedOf(await read("steady")) > 0);
        const strikesFrom = performance.now();
        const struck = new AbortController();
        await Promise.all([strike().finally(() => struck.abort()), holdLast(spec.replicas, struck.signal)]);
        const updated = updatedOf(await read("steady"));
        measured(`${what}: ${seconds(strikesFrom)}, with ${updated} of ${spec.replicas} pods updated then`);
        expect(updated).toBeLessThan(spec.replicas);
        await deployed.patch("steady", { minReadySeconds: 0 });
        await deployed.rolledOut("steady", spec.replicas, image, ROLLED_OUT_MS_MAX);
        const settlesFrom = performance.now();
        await deployed.settled();
        measured(`${what}: nothing lost, looked at for ${seconds(settlesFrom)}; in all ${seconds(strikesFrom)}`);
        const changes = history.changes();
        const began = changes[before]?.revision ?? 0n;
        const moments = momentsOf(changes, "steady").filter(({ change }) => change.revision >= began);
        expect(most(moments, ({ asked }) => asked)).toBeLessThanOrEqual(spec.replicas + 1);
        expect(least(moments, ({ ready }) => ready)).toBeGreaterThanOrEqual(spec.replicas);
        expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
        // The old ReplicaSet had its former pods and the new one the desired number: nothing was created twice.
        const sets = Object.entries(podsCreated(changes)).filter(([rs]) => rs.startsWith("steady-"));
        expect(sets.map(([, count]) => count)).toEqual([spec.replicas, spec.replicas]);
      } finally {
        await history.stop();
      }
    },

    async stop() {
      sqs.destroy();
      await local.stop();
      await cluster.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };

  async function read(name: string): Promise<Rollout> {
    return (await client.request("GET", `${DEPLOYMENTS}/${name}`)) as unknown as Rollout;
  }

  /** Keeps the second to last of `steady`'s pods unavailable until the test releases it. */
  async function holdLast(replicas: number, signal: AbortSignal): Promise<void> {
    for (; !signal.aborted; await sleep(HOLD_POLL_MS))
      if (updatedOf(await read("steady")) >= replicas - 2) return await deployed.patch("steady", { minReadySeconds: HELD_SECONDS });
  }

  /** Returns the dead-letter queues that have messages, as `deltaloop-local-deployment-dead: 1`. */
  async function deadMessages(): Promise<readonly string[]> {
    const { QueueUrls = [] } = await sqs.send(new ListQueuesCommand({}));
    const dead = QueueUrls.filter((url) => /-dead(?:\.fifo)?$/.test(url));
    expect(dead).toHaveLength(4);
    const counts = await Promise.all(dead.map(async (url) => [url, await messagesIn(sqs, url)] as const));
    return counts.filter(([, count]) => count > 0).map(([url, count]) => `${url.split("/").at(-1)}: ${count}`);
  }

  return deployed;
}

/** The number of visible and in-flight messages. */
export async function messagesIn(sqs: SQSClient, QueueUrl: string): Promise<number> {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  return Number(Attributes?.ApproximateNumberOfMessages) + Number(Attributes?.ApproximateNumberOfMessagesNotVisible);
}

export function seconds(from: number): string {
  return `${((performance.now() - from) / 1000).toFixed(1)} s`;
}
