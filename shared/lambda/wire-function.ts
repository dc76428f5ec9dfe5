import { readFileSync } from "node:fs";

import { createKubeHttp } from "../adapters/kube-http/kube-http.ts";
import type { KubeHttpConfig } from "../adapters/kube-http/config.ts";
import { redisClient } from "../adapters/redis/client.ts";
import { createRedisStore } from "../adapters/redis/redis-store.ts";
import { sqsClient } from "../adapters/sqs/client.ts";
import { createSqsDoorbells } from "../adapters/sqs/doorbells.ts";
import { createSqsMessageSource } from "../adapters/sqs/message-source.ts";
import { createSystemClock } from "../adapters/system/clock.ts";
import { createSystemRandom } from "../adapters/system/random.ts";
import { createDigester } from "../api/digest.ts";
import type { Controller } from "../api/resources.ts";
import { createSigner } from "../api/signer.ts";
import { cacheIdentity } from "../cache/identity.ts";
import { describeError } from "../ports/describe-error.ts";
import { APPLIER_REQUEST_TIMEOUT_MS, APPLIER_WAIT_MS_MAX } from "../ports/times.ts";
import { createWriteGateway } from "../controller/write-gateway.ts";
import { parseConfiguration } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";
import { createLogger } from "./logger.ts";
import { tokenFrom } from "./token-file.ts";
import type { ClusterWiring, FunctionWiring } from "./wiring.ts";

/** Q1 is a FIFO queue here (informer §19). */
const HOLE_LIMIT_MS = 2_000;

/**
 * Everything a function needs, from Lambda's environment. Made once per sandbox; connections stay open between invocations.
 *
 * @throws {ConfigurationError} when the environment is incomplete or wrong
 */
export function wireFunction(component: Component): Omit<FunctionWiring, "trace"> {
  const configuration = parseConfiguration(process.env);
  return wireFunctionFrom(component, configuration, kubeHttpConfig(configuration.kube, component));
}

export type Component = Controller | "apply-deltas" | "dead-deltas" | "sweep";

/** The same with what is known otherwise: the local function host takes its credentials from a kubeconfig. */
export function wireFunctionFrom(
  component: Component,
  configuration: Configuration,
  kubeConfig: KubeHttpConfig,
): Omit<FunctionWiring, "trace"> {
  const { deployment, cluster: cid, queues } = configuration;
  const digester = createDigester(configuration.digestKey);
  const signer = createSigner(configuration.macKeys, cid);
  const sqs = sqsClient(queues.endpoint === undefined ? {} : { endpoint: queues.endpoint });
  const kube = createKubeHttp({ ...kubeConfig, ...patienceOf(component) });
  const log = createLogger(`deltaloop-${component}`, configuration.logLevel);
  const redis = redisClient(configuration.redis);
  // Calls fail by themselves; a connection that is lost between them has no other voice.
  redis.on("error", (error: Error) => log.warn("redis connection failed", { error: describeError(error) }));
  const store = createRedisStore(redis, {
    deployment,
    cluster: cid,
    identity: cacheIdentity(digester),
    signer,
    holeLimitMs: HOLE_LIMIT_MS,
  });
  const cluster: ClusterWiring = {
    store,
    signer,
    doorbells: createSqsDoorbells(sqs, { queueUrls: queues.doorbells, cid }),
    reader: kube,
    gateway: (controller) => createWriteGateway(kube, controller, configuration.mode),
  };
  const queueUrl = ownQueue(component, queues);
  return {
    clock: createSystemClock(),
    random: createSystemRandom(),
    log,
    digester,
    cluster: (asked) => (asked === cid ? cluster : undefined),
    clusters: [cid],
    ...(queueUrl === undefined ? {} : { source: createSqsMessageSource(sqs, { queueUrl }) }),
  };
}

/** The short functions only read, and what they cannot read in time comes again; a sync brings its own patience with each call. */
function patienceOf(component: Component): Pick<KubeHttpConfig, "requestTimeoutMs" | "waitMsMax"> {
  const isShort = component === "apply-deltas" || component === "dead-deltas";
  return isShort ? { requestTimeoutMs: APPLIER_REQUEST_TIMEOUT_MS, waitMsMax: APPLIER_WAIT_MS_MAX } : {};
}

/** Whose visibility the function may shorten. Nobody waits for a dead letter, so its queue need not be known. */
function ownQueue(component: Component, queues: Configuration["queues"]): string | undefined {
  switch (component) {
    case "apply-deltas":
      return queues.deltas;
    case "dead-deltas":
    case "sweep":
      return undefined;
    default:
      return queues.doorbells[component];
  }
}

/** Access as the environment tells it: a token and an authority. */
export function kubeHttpConfig(kube: Configuration["kube"], component: string): KubeHttpConfig {
  const { server, token } = kube;
  const ca = kube.caFile === undefined ? kube.ca : readFileSync(kube.caFile);
  const asked = kube.tokenFile === undefined ? token && (() => token) : tokenFrom(kube.tokenFile);
  return { server, component, ...(ca === undefined ? {} : { ca }), ...(asked ? { token: asked } : {}) };
}
