/**
 * The exports of the built-in functions' handler files: they serve one cluster, or all clusters of the directory that DELTALOOP_CLUSTERS names.
 * Functions of user controllers serve one cluster, and their bundles have none of this code.
 */
import type { Log } from "@deltaloop/base";
import type { Metrics } from "@deltaloop/base/metrics";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { describeError } from "@deltaloop/kube/client";
import { createDigester } from "@deltaloop/kube/pod-template";
import { createSigner } from "@deltaloop/store/ports";
import type { MessageSource, Signer } from "@deltaloop/store/ports";
import { createParameters } from "@deltaloop/store/secrets";
import { createSqsMessageSource } from "@deltaloop/store/sqs";
import { openHeartbeat } from "../../cache/messages/heartbeats.ts";
import { openBody, withRenewedKeys } from "../../cache/messages/signed-body.ts";
import { serviceAccount, syncFunction } from "../../registry/names.ts";
import { NOT_LET_IN } from "../connect-live.ts";
import { shareConnections } from "../connect.ts";
import type { SharedConnections } from "../connect.ts";
import type { Variables } from "../configuration.ts";
import { deployed, remade } from "../deployed.ts";
import type { Serving } from "../deployed.ts";
import type { LiveConfiguration } from "../live-configuration.ts";
import { createLogger } from "../logger.ts";
import type { SqsHandler } from "../sqs-handler.ts";
import { componentService, functionMetrics, ownQueue } from "../wire-function.ts";
import type { Component, WiredFunction } from "../wire-function.ts";
import { createClusterValues } from "./cluster-values.ts";
import { directoryIn, directoryVariables } from "./directory-configuration.ts";
import type { DirectoryPlace } from "./directory-configuration.ts";
import { isSignedDoorbell, routeRecords } from "./route-records.ts";
import type { RecordsOf } from "./route-records.ts";
import { createServedClusters } from "./served-clusters.ts";
import type { ServedClusters } from "./served-clusters.ts";

/** Shorter than a function's timeout with its retries: known clusters are served meanwhile. */
const PARAMETERS_TIMEOUT_MS = 500;

interface Parts<H> {
  readonly live: LiveConfiguration;
  readonly clusters: ServedClusters<H>;
  /** The function's queue. */
  readonly source?: Pick<MessageSource, "setVisibility"> | undefined;
  readonly log: Log;
  readonly metrics: Metrics | undefined;
}

/** Returns the export of a function with a queue of deltas or doorbells. */
export function deployedQueue(
  component: Exclude<Component, "sweep">,
  records: "deltas" | "doorbells",
  create: (wiring: WiredFunction) => SqsHandler,
  environment: Variables = process.env,
): SqsHandler {
  return either(component, create, environment, (parts) => serveRecords(records, parts));
}

/** Returns the export of the sweeper, which serves all clusters of the directory in one invocation. */
export function deployedSchedule<R>(
  component: "sweep",
  create: (wiring: Omit<WiredFunction, "close">) => () => Promise<R>,
  environment: Variables = process.env,
): () => Promise<R> {
  return either(component, create, environment, ({ live, clusters, log, metrics }) => async () => {
    const listed = new Map((await clusters.list()).flatMap((each) => (each.isPaused ? [] : [[each.cid, each.wiring] as const])));
    const digester = createDigester(live.current.digestKey);
    const sweep = create({
      ...{ clock: createSystemClock(), random: createSystemRandom(), log, digester, ...(metrics && { metrics }) },
      clusters: [...listed.keys()],
      cluster: (cid) => (cid === undefined ? undefined : listed.get(cid)),
    });
    return await sweep();
  });
}

/** The handler of a function whose records are of all clusters. */
export function serveRecords(
  records: "deltas" | "doorbells",
  { live, clusters, source, log }: Pick<Parts<SqsHandler>, "live" | "clusters" | "source" | "log">,
): SqsHandler {
  return routeRecords({
    ...{ records, log, source, clock: createSystemClock() },
    async functionOf(cid, own) {
      if (!clusters.has(cid) && !(await isAuthentic(live, cid, own))) return "forged"; // XO3
      const served = await clusters.get(cid);
      if (served === undefined) return "missing";
      return served.isPaused && own.kind === "doorbells" ? "paused" : { handler: served.handler, signer: served.wiring.signer };
    },
  });
}

/** Whether a key of this deployment has signed one of the records for the cluster that they claim. */
async function isAuthentic(live: LiveConfiguration, cid: string, { kind, bodies }: RecordsOf): Promise<boolean> {
  const signerOf = (): Signer => createSigner(live.current.macKeys, cid);
  for (const body of bodies) {
    if (kind === "doorbells" && isSignedDoorbell(body, signerOf())) return true;
    if (kind === "doorbells") continue;
    const read = () => (kind === "heartbeats" ? openHeartbeat(body, signerOf) : openBody(body, signerOf));
    if ((await withRenewedKeys<{ readonly kind: string }>(read, async () => await live.renew("macKey"))).kind !== "forged") return true;
  }
  return false;
}

function either<A extends readonly unknown[], R>(
  component: Component,
  create: (wiring: WiredFunction) => (...args: A) => Promise<R>,
  environment: Variables,
  serve: (parts: Parts<(...args: A) => Promise<R>>) => (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  let chosen: ((...args: A) => Promise<R>) | undefined;
  return async (...args) => {
    const place = directoryIn(environment);
    chosen ??= place
      ? remade(component, directoryVariables(environment), (live) => forClusters({ component, create, environment, place, live }, serve))
      : deployed(component, create, environment);
    return await chosen(...args);
  };
}

interface ForClusters<H> {
  readonly component: Component;
  readonly create: (wiring: WiredFunction) => H;
  readonly environment: Variables;
  readonly place: DirectoryPlace;
  readonly live: LiveConfiguration;
}

function forClusters<A extends readonly unknown[], R>(
  { component, create, environment, place: { place, allowed: allowances }, live }: ForClusters<(...args: A) => Promise<R>>,
  serve: (parts: Parts<(...args: A) => Promise<R>>) => (...args: A) => Promise<R>,
): Serving<A, R> {
  const { current } = live;
  const clock = createSystemClock();
  const log = createLogger(componentService(component), current.logLevel);
  const metrics = current.metrics === "none" ? undefined : functionMetrics(component, current, clock);
  const allowed = new Set(allowances);
  const role = serviceAccount(functionName(component));
  const endpoint = environment["DELTALOOP_SECRETS_ENDPOINT"];
  const parameters = createParameters({ timeoutMs: PARAMETERS_TIMEOUT_MS, ...(endpoint && { endpoint }) });
  const shared: SharedConnections = shareConnections(current, sharedRedisFailed(live, log));
  const values = createClusterValues({ parameters, place, role, allowed, clock, random: createSystemRandom(), log });
  const clusters = createServedClusters({ component, role, live, values, allowed, shared, create, metrics, clock, log });
  const queueUrl = ownQueue(component, current.queues);
  const source = queueUrl === undefined ? undefined : createSqsMessageSource(shared.sqs, { queueUrl });
  const handler = serve({ live, clusters, source, log, metrics });
  let running = 0;
  return {
    async handler(...args) {
      running++;
      try {
        return await handler(...args);
      } finally {
        if (--running === 0) clusters.drop();
      }
    },
    close() {
      shared.close();
      parameters.close();
      return Promise.resolve();
    },
  };
}

/** Logs a failed connection, and reads the secrets again if Redis rejected the password: the next invocation connects with the new one. */
export function sharedRedisFailed(live: Pick<LiveConfiguration, "renew">, log: Pick<Log, "warn">): (error: Error) => void {
  return (error) => {
    log.warn("redis connection failed", { error: describeError(error) });
    if (NOT_LET_IN.test(error.message)) void live.renew("redis");
  };
}

function functionName(component: Component): string {
  return component === "apply-deltas" || component === "dead-deltas" || component === "sweep" ? component : syncFunction(component);
}
