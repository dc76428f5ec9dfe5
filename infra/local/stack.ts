/**
 * Deltaloop as it is deployed, on this machine: the zips behind LocalStack's own event source mappings, a redis-server, and the
 * watcher as a process of its own. The API server is somebody else's.
 */
import { randomBytes } from "node:crypto";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { GetQueueUrlCommand } from "@aws-sdk/client-sqs";

import { readClusterIdentity } from "../../cli/support/cluster-id.ts";
import { shutGate } from "../../cli/support/gates.ts";
import { requestToken } from "../../cli/support/token-request.ts";
import { startLocalRedis } from "../../cli/support/local-redis.ts";
import { createKubeHttp } from "../../shared/adapters/kube-http/kube-http.ts";
import type { KubeHttpConfig } from "../../shared/adapters/kube-http/config.ts";
import { sqsClient } from "../../shared/adapters/sqs/client.ts";
import { CONTROLLERS, tableOf } from "../../shared/api/resources.ts";
import type { Signer } from "../../shared/api/signer.ts";
import { environmentOf } from "../../shared/lambda/configuration.ts";
import type { Configuration } from "../../shared/lambda/configuration.ts";
import { openCache, redisStore } from "../../shared/lambda/connect.ts";
import { isNotFound } from "../../shared/ports/errors.ts";
import type { Store } from "../../shared/ports/store.ts";
import { functionsOf } from "../../shared/registry/functions.ts";
import { serviceAccount } from "../../shared/registry/names.ts";
import { REGISTRY } from "../../shared/registry/registry.ts";
import { deploy, remove } from "./deploy.ts";
import type { LocalDeployment } from "./deploy.ts";
import { startLocalStack } from "./localstack.ts";
import type { LocalStack } from "./localstack.ts";

export interface LocalOptions {
  /** Credentials by role: `deltaloop-watcher` and one for each function (infra/manifests/rbac.yaml). */
  readonly access: (role: string) => Promise<KubeHttpConfig>;
  /** Where the watcher finds the same. */
  readonly kubeconfig: string;
  readonly mode: "act" | "shadow";
  readonly leaseNamespace?: string;
  readonly port?: number;
  readonly logFile?: string;
  readonly verbose?: boolean;
}

export interface LocalDeltaloop {
  readonly localStack: LocalStack;
  readonly redisUrl: string;
  readonly queueUrls: { readonly deltas: string; readonly doorbells: Readonly<Record<string, string>> };
  readonly cluster: string;
  readonly store: Store;
  /** The watcher's and the functions'. */
  readonly signer: Signer;
  /** `serverless deploy` while everything runs, of functions that differ: they run `preamble` when they are loaded. */
  redeploy(preamble: string): Promise<void>;
  /** `serverless remove`, and before it the watcher ends, which has nowhere to send to then. */
  remove(): Promise<void>;
  stop(): Promise<void>;
}

const ROOT = join(import.meta.dirname, "..", "..");
/** Name of the stage, and so part of every Redis key and queue name. */
const STAGE = "local";
/** Nobody renews them: this is how long it runs at most on a kubeconfig with a certificate. */
const TOKEN_SECONDS = 24 * 3600;
const READY_MS_MAX = 60_000;
const READY_POLL_MS = 100;
const END_GRACE_MS = 3_500;

/** Resolves once keys of every controller are handed out. @throws when a part does not start; what had started is stopped again */
export async function startLocal(options: LocalOptions): Promise<LocalDeltaloop> {
  const stops: (() => Promise<unknown>)[] = [];
  const stop = async (): Promise<void> => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  try {
    const watcherAccess = await options.access("deltaloop-watcher");
    const { cid } = await readClusterIdentity(createKubeHttp(watcherAccess));
    const redis = await startLocalRedis();
    if (redis === undefined) throw new Error("redis-server does not start: install it (Debian: apt-get install redis-server)");
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
    await deploy(deployment);
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
    // Calls fail by themselves; a connection that is lost between them has no other voice.
    const { store, signer } = openCache(
      configuration,
      redisStore(configuration.redis, () => undefined),
    );
    stops.push(() => store.close());
    const stopWatcher = startWatcher(options, configuration);
    stops.push(stopWatcher);
    await ready(store);
    return {
      localStack,
      redisUrl: redis.url,
      queueUrls,
      cluster: cid,
      store,
      signer,
      redeploy: (preamble) => deploy(deployment, preamble),
      async remove() {
        await stopWatcher();
        await remove(deployment);
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/**
 * A function speaks to the API server with a token or as nobody; certificates are for people. Who has one of those asks for a token
 * of the function's own service account.
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
    return (await requestToken(credentials, { serviceAccount, seconds: TOKEN_SECONDS })).token;
  } catch (error) {
    if (!isNotFound(error)) throw error;
    throw new Error(
      `functions take tokens and the kubeconfig has a certificate: kubectl apply -f infra/manifests/rbac.yaml makes their service accounts (${serviceAccount} is missing)`,
      { cause: error },
    );
  }
}

async function findQueues(endpoint: string): Promise<Configuration["queues"]> {
  const client = sqsClient({ endpoint });
  const url = async (name: string): Promise<string> => {
    const { QueueUrl } = await client.send(new GetQueueUrlCommand({ QueueName: `deltaloop-${STAGE}-${name}` }));
    if (QueueUrl === undefined) throw new Error(`there is no queue ${name}`);
    return QueueUrl;
  };
  try {
    const doorbells = new Map(await Promise.all(CONTROLLERS.map(async (controller) => [controller, await url(controller)] as const)));
    return { endpoint, deltas: await url("deltas.fifo"), doorbells: tableOf(CONTROLLERS, (controller) => doorbells.get(controller) ?? "") };
  } finally {
    client.destroy();
  }
}

/** The watcher ends with us: its standard input is a pipe from us. @returns what stops it */
function startWatcher(options: LocalOptions, configuration: Configuration): () => Promise<void> {
  const flags = ["--child", "--kubeconfig", options.kubeconfig, "--lease-namespace", options.leaseNamespace ?? "kube-system"];
  const child = spawn(process.execPath, [join(ROOT, "cli", "main.ts"), "watch", ...flags], {
    stdio: ["pipe", "ignore", "inherit"],
    env: { ...process.env, ...environmentOf(configuration) },
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()).once("error", () => resolve()));
  child.stdin.on("error", () => undefined);
  let ending = false;
  void exited.then(() => ending || say(`the watcher ended with ${child.signalCode ?? `code ${child.exitCode}`}`));
  return async () => {
    ending = true;
    child.kill("SIGTERM");
    const killer = setTimeout(() => child.kill("SIGKILL"), END_GRACE_MS);
    await exited;
    clearTimeout(killer);
  };
}

async function ready(store: Store): Promise<void> {
  const giveUpAt = performance.now() + READY_MS_MAX;
  for (;;) {
    const shut = await shutGate(store);
    if (shut === undefined) return;
    if (performance.now() > giveUpAt) throw new Error(`not ready within ${READY_MS_MAX / 1000} s: ${shut}`);
    await sleep(READY_POLL_MS);
  }
}

function say(line: string): void {
  process.stderr.write(`local: ${line}\n`);
}
