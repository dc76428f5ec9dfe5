/**
 * The deployed system on this machine: the zips behind LocalStack's event source mappings, a redis-server, and the watcher as a process,
 * with secrets from LocalStack. The API server is external.
 */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { GetQueueUrlCommand } from "@aws-sdk/client-sqs";

import { readConfiguration, startLocalRedis } from "@deltaloop/local/processes";
import { readClusterIdentity, isNotFound } from "@deltaloop/kube/client";
import { shutGate } from "@deltaloop/controllers/cache";
import { requestToken } from "@deltaloop/kube/kubeconfig";
import { createKubeHttp } from "@deltaloop/kube/http";
import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { sqsClient } from "@deltaloop/store/sqs";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import { environmentOf } from "@deltaloop/controllers/configuration";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import type { Cache } from "@deltaloop/controllers/lambda";
import { functionsOf, secretName, serviceAccount, REGISTRY } from "@deltaloop/controllers/registry";
import { deploy, putSecrets, remove, ROOT, STAGE } from "./deploy.ts";
import type { Edition, LocalDeployment } from "./deploy.ts";
import { startLocalStack } from "./localstack.ts";
import type { LocalStack } from "./localstack.ts";
import { startWatcher } from "./watcher.ts";
import type { LocalWatcher } from "./watcher.ts";

export interface LocalOptions {
  /** Credentials by role: `deltaloop-watcher` and one for each function (infra/manifests/rbac.yaml). */
  readonly access: (role: string) => Promise<KubeHttpConfig>;
  /** Kubeconfig of the watcher. */
  readonly kubeconfig: string;
  readonly mode: "act" | "shadow";
  readonly leaseNamespace?: string;
  readonly port?: number;
  readonly logFile?: string;
  readonly verbose?: boolean;
  /** Initial build of functions and watcher. Default: this checkout. */
  readonly edition?: Edition;
}

export interface LocalDeltaloop {
  readonly localStack: LocalStack;
  readonly redisUrl: string;
  readonly queueUrls: { readonly deltas: string; readonly doorbells: Readonly<Record<string, string>> };
  readonly cluster: string;
  /** The watcher's environment with references to secrets, as `deltaloop doctor` and `rotate` need it. */
  environment(): Readonly<Record<string, string>>;
  /** Checkout of the last deployed build. */
  root(): string;
  /** Opens the cache with the current keys. The caller closes its Store. */
  openCache(): Promise<Cache>;
  /** Runs `serverless deploy` again. The watcher keeps running unchanged. */
  redeploy(edition: Edition): Promise<void>;
  readonly watcher: Pick<LocalWatcher, "pid" | "endings">;
  /** Replaces the watcher with that of the last deployed build. */
  renewWatcher(): Promise<void>;
  /** Stops the watcher, then runs `serverless remove`. */
  remove(): Promise<void>;
  stop(): Promise<void>;
}

/** Tokens are not renewed, which limits a run with a kubeconfig that has a certificate. */
const TOKEN_SECONDS = 24 * 3600;
const READY_MS_MAX = 60_000;
const READY_POLL_MS = 100;

/** Resolves once the gates of all controllers are open. @throws when a component does not start, after it stopped the others */
export async function startLocal(options: LocalOptions): Promise<LocalDeltaloop> {
  const stops: (() => Promise<unknown>)[] = [];
  const stop = async (): Promise<void> => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  try {
    const watcherAccess = await options.access("deltaloop-watcher");
    const { cid } = await readClusterIdentity(createKubeHttp(watcherAccess));
    // Uses no password, since the URL is a parameter of the deployment.
    const redis = await startLocalRedis("");
    if (redis === undefined) throw new Error("redis-server is missing or does not start (Debian: apt-get install redis-server)");
    stops.push(redis.stop);
    const { port, logFile } = options;
    const localStack = await startLocalStack({ ...(port !== undefined && { port }), ...(logFile !== undefined && { logFile }) });
    stops.push(localStack.stop);

    const deployment: LocalDeployment = {
      endpoint: localStack.endpoint,
      clusterId: cid,
      mode: options.mode,
      redisUrl: redis.url,
      digestKey: randomBytes(32).toString("hex"),
      macKey: randomBytes(32).toString("hex"),
      kubeServer: watcherAccess.server,
      ...(watcherAccess.ca !== undefined && { kubeCa: String(watcherAccess.ca) }),
      kubeTokens: await tokens(options.access),
      logLevel: options.verbose ? "debug" : "info",
    };
    const startedAt = performance.now();
    say(`serverless deploy --stage ${STAGE}: about 50 s`);
    let edition = options.edition ?? {};
    await putSecrets(deployment);
    await deploy(deployment, edition);
    say(`deployed after ${((performance.now() - startedAt) / 1000).toFixed(0)} s`);

    const queueUrls = await findQueues(localStack.endpoint);
    const configuration: Configuration = {
      deployment: STAGE,
      cluster: cid,
      mode: options.mode,
      digestKey: deployment.digestKey,
      macKeys: [deployment.macKey],
      redis: { url: redis.url, cluster: false },
      kube: { server: watcherAccess.server },
      queues: queueUrls,
      logLevel: deployment.logLevel,
      metrics: "emf",
    };
    const environment = (): Readonly<Record<string, string>> => referring(configuration, localStack.endpoint, edition);
    const open = async (): Promise<Cache> => {
      const { current } = await readConfiguration(environment());
      // Connection errors between calls are ignored; during a call, the call rejects.
      const make = redisStore(current.redis, () => undefined);
      const cache = openCache(current, make);
      if (edition.root === undefined) return cache;
      // Another build's epoch may have another identity, so the Store is opened with the identity of the epoch.
      const made = await cache.store.epoch();
      if (made === undefined) return cache;
      await cache.store.close();
      const { projection, digestPrefix, hashLayout } = made;
      return openCache(current, (options) => make({ ...options, identity: { projection, digestPrefix, hashLayout } }));
    };
    const flags = ["--kubeconfig", options.kubeconfig, "--lease-namespace", options.leaseNamespace ?? "kube-system"];
    const start = (): LocalWatcher => startWatcher({ root: edition.root ?? ROOT, flags, environment: environment(), say });
    let watcher = start();
    stops.push(() => watcher.stop());
    await ready(open);
    return {
      localStack,
      redisUrl: redis.url,
      queueUrls,
      cluster: cid,
      environment,
      root: () => edition.root ?? ROOT,
      openCache: open,
      async redeploy(next) {
        edition = next;
        await deploy(deployment, next);
      },
      watcher: { pid: () => watcher.pid(), endings: () => watcher.endings() },
      async renewWatcher() {
        await watcher.stop();
        watcher = start();
      },
      async remove() {
        await watcher.stop();
        await remove(deployment, edition);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * A function calls the API server with a token or anonymously. With a client certificate, a token of the function's
 * service account is requested.
 */
async function tokens(access: LocalOptions["access"]): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for (const { name } of functionsOf(REGISTRY).filter(({ usesKube }) => usesKube)) {
    const role = serviceAccount(name);
    const credentials = await access(role);
    const value = (await credentials.token?.()) ?? (credentials.cert && (await tokenOf(credentials, role)));
    if (value !== undefined) found[name] = value;
  }
  return found;
}

async function tokenOf(credentials: KubeHttpConfig, serviceAccount: string): Promise<string> {
  try {
    return (await requestToken(createKubeHttp(credentials), { serviceAccount, seconds: TOKEN_SECONDS })).token;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw new Error(
      `service account ${serviceAccount} is missing: run kubectl apply -f infra/manifests/rbac.yaml, since functions need tokens and the kubeconfig has a certificate`,
      { cause: error },
    );
  }
}

/** The queues of a deployment. */
export async function findQueues(endpoint: string): Promise<Configuration["queues"]> {
  const client = sqsClient({ endpoint });
  const url = async (name: string): Promise<string> => {
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: `deltaloop-${STAGE}-${name}` }));
    if (QueueUrl === undefined) throw new Error(`queue ${name} does not exist`);
    return QueueUrl;
  };
  try {
    const doorbells = new Map(await Promise.all(CONTROLLERS.map(async (controller) => [controller, await url(controller)] as const)));
    return { endpoint, deltas: await url("deltas.fifo"), doorbells: tableOf(CONTROLLERS, (controller) => doorbells.get(controller) ?? "") };
  } finally {
    client.destroy();
  }
}

/** Returns the configuration with references to the secrets that `putSecrets` has written. */
function referring(
  configuration: Configuration,
  endpoint: string,
  { secretsSeconds, kubernetes }: Edition,
): Readonly<Record<string, string>> {
  const { DELTALOOP_MAC_KEY: _mac, DELTALOOP_DIGEST_KEY: _digest, ...rest } = environmentOf(configuration);
  return {
    ...rest,
    DELTALOOP_MAC_KEY_SECRET: secretName(STAGE, "mac-key"),
    DELTALOOP_DIGEST_KEY_SECRET: secretName(STAGE, "digest-key"),
    DELTALOOP_SECRETS_ENDPOINT: endpoint,
    ...(kubernetes !== undefined && { DELTALOOP_KUBERNETES: kubernetes }),
    ...(secretsSeconds !== undefined && { DELTALOOP_SECRETS_SECONDS: String(secretsSeconds) }),
  };
}

async function ready(open: () => Promise<Cache>): Promise<void> {
  const giveUpAt = performance.now() + READY_MS_MAX;
  for (;;) {
    const { store } = await open();
    try {
      const shut = await shutGate(store);
      if (shut === undefined) return;
      if (performance.now() > giveUpAt) throw new Error(`not ready within ${READY_MS_MAX / 1000} s: ${shut}`);
    } finally {
      await store.close();
    }
    await sleep(READY_POLL_MS);
  }
}

function say(line: string): void {
  process.stderr.write(`local: ${line}\n`);
}
