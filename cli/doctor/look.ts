/**
 * The probes of `doctor`: all run at once, each part with its own deadline, so that an unreachable system only affects its own part. Reads
 * only; a review of permissions is a POST that changes nothing.
 */
import { createClient, kubeOver, readUser, startupClient, StartupError } from "@deltaloop/kube/http";
import type { KubeClient, KubeHttpConfig } from "@deltaloop/kube/http";
import { createRedisProbe } from "@deltaloop/store/redis";
import { sqsClient, queueFacts, queueFactsByArn } from "@deltaloop/store/sqs";
import { createSystemClock } from "@deltaloop/base/system";
import { CACHED_RESOURCES, CONTROLLERS } from "@deltaloop/kube/objects";
import type { Lease } from "@deltaloop/kube/objects";
import { auditResource } from "@deltaloop/controllers/cache";
import type { Configuration } from "@deltaloop/controllers/configuration";
import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import { describeError, readClusterIdentity } from "@deltaloop/kube/client";
import { AUDIT_SETTLE_MS } from "@deltaloop/base";
import { LEASE_TERMS, parseTerms } from "@deltaloop/controllers/cache";
import { CANARY, serviceAccount, ROLES, watcherLease } from "@deltaloop/controllers/registry";
import { readApiServer } from "../cluster/api-server.ts";
import { reviewRole } from "../cluster/rights.ts";
import type { ApiFacts, AuditFacts, CacheFacts, Facts, LeaseFacts, QueueSight, RoleFacts, Seen } from "./facts.ts";

export interface LookOptions {
  readonly configuration: Configuration;
  /** The credentials that a process of this role would use. */
  readonly access: (role: string) => Promise<KubeHttpConfig>;
  readonly leaseNamespace: string;
  /** Whether to compare every object with its row as well. */
  readonly audit?: boolean;
}

/** All parts run concurrently, so this is about the maximum duration of all probes. */
export const PART_MS = 4_500;
/** An audit waits for lanes that lag behind its list, and reads the whole cluster once or twice. */
export const AUDIT_PART_MS = AUDIT_SETTLE_MS + 60_000;
/** A call times out before its part does, so that the part can report the call that failed. */
const CALL = { requestTimeoutMs: 3_000, waitMsMax: 500 };
/** How long a call is retried after a 5xx or an interruption: a single failed call must not be reported as a problem. */
const REPEAT_MS = 1_500;
/** Limit for each controller, to bound the duration. */
const OWNERS_MAX = 2_000;

export async function look(options: LookOptions): Promise<Facts> {
  const { mode, guard = "on", kubernetes = "supported", cluster, redis } = options.configuration;
  const [{ api, roles }, { server, cache }, queues] = await Promise.all([lookAtApi(options), lookAtRedis(options), lookAtQueues(options)]);
  const dead =
    server.kind === "unseen" ? "Redis does not answer" : api.version.kind === "unseen" ? "the API server does not answer" : undefined;
  const audits = options.audit ? { audits: await lookAtObjects(options, dead) } : {};
  return {
    mode,
    guard,
    kubernetes,
    cluster,
    redisCluster: redis.cluster,
    durability: redis.durability ?? "C",
    api,
    roles,
    server,
    queues,
    cache,
    ...audits,
  };
}

async function lookAtObjects({ configuration, access }: LookOptions, dead: string | undefined): Promise<readonly AuditFacts[]> {
  if (dead !== undefined) return CACHED_RESOURCES.map((resource) => ({ resource, seen: unseen(dead) }));
  const kube = kubeOver(createClient(await access(serviceAccount("watcher"))));
  const { store } = openCache(
    configuration,
    redisStore(configuration.redis, () => undefined), // the calls report errors
  );
  const clock = createSystemClock();
  const ends = new AbortController();
  const audits = await Promise.all(
    CACHED_RESOURCES.map(async (resource): Promise<AuditFacts> => {
      const audit = () => auditResource({ kube, store, clock }, resource, AUDIT_SETTLE_MS, ends.signal);
      return { resource, seen: await seen(audit, AUDIT_PART_MS) };
    }),
  );
  ends.abort(new Error("deadline exceeded"));
  await store.close();
  return audits;
}

async function lookAtApi({ configuration, access, leaseNamespace }: LookOptions): Promise<Pick<Facts, "api" | "roles">> {
  const act = configuration.mode === "act";
  // Credentials may come from a plugin that hangs: each part waits for them within its own deadline.
  const reached = access(serviceAccount("watcher")).then((config) => {
    const client = repeating(config);
    return { server: new URL(config.server).origin, client, kube: kubeOver(client) };
  });
  const name = watcherLease(configuration.deployment);
  const [version, identity, lease, canary, roles] = await Promise.all([
    seen(async (): Promise<SeenValue<ApiFacts["version"]>> => {
      const { server, client } = await reached;
      return { server, ...(await readApiServer(client)) };
    }),
    seen(async () => await readClusterIdentity((await reached).kube)),
    seen(async () => leaseFacts((await (await reached).kube.get("leases", leaseNamespace, name)) as Lease | undefined)), // the resource determines the type
    seen(async () => (await (await reached).kube.get("replicasets", leaseNamespace, CANARY)) !== undefined),
    Promise.all(
      ROLES.map(async (role): Promise<RoleFacts> => ({
        role: role.name,
        seen: await seen(async () => {
          const config = await access(role.name);
          const review = reviewRole(role, config, { act, leaseNamespace, connect: repeating });
          const [user, rights] = await Promise.all([readUser(repeating(config)), review]);
          return { user, rights };
        }),
      })),
    ),
  ]);
  const ifSeen = <T>(part: Seen<T>): Seen<T> =>
    version.kind === "seen" || part.kind === "seen" ? part : unseen("the API server does not answer");
  return {
    api: {
      ...{ version, identity: ifSeen(identity) },
      lease: { name: `${leaseNamespace}/${name}`, seen: ifSeen(lease) },
      canary: { name: `${leaseNamespace}/${CANARY}`, seen: ifSeen(canary) },
    },
    roles: roles.map((role) => ({ ...role, seen: ifSeen(role.seen) })),
  };
}

function repeating(config: KubeHttpConfig): KubeClient {
  const client = createClient({ ...config, ...CALL });
  return startupClient(client, { timeoutMs: REPEAT_MS, clock: createSystemClock(), onWaiting: () => undefined });
}

type SeenValue<S> = S extends { readonly kind: "seen"; readonly value: infer T } ? T : never;

function leaseFacts(lease: Lease | undefined): LeaseFacts | undefined {
  if (lease === undefined) return undefined;
  const { holderIdentity, renewTime, leaseDurationSeconds } = lease.spec ?? {};
  return {
    resourceVersion: lease.metadata?.resourceVersion ?? "0",
    holder: holderIdentity ?? "",
    renewedAtMs: new Date(renewTime ?? 0).getTime(),
    durationSeconds: leaseDurationSeconds ?? 0,
    terms: parseTerms(lease.metadata?.annotations?.[LEASE_TERMS]),
  };
}

async function lookAtRedis({ configuration }: LookOptions): Promise<Pick<Facts, "server" | "cache">> {
  const probe = createRedisProbe(configuration.redis, configuration);
  const { store } = openCache(
    configuration,
    redisStore(configuration.redis, () => undefined), // the probe's connection reports the same error
  );
  const inEpoch = async <T>(read: (epoch: string) => Promise<T>): Promise<T> => {
    const record = await store.epoch();
    if (record === undefined) throw new NothingThereError("there is no epoch");
    return await read(record.epoch);
  };
  const controllers = CONTROLLERS.map(async (controller) => {
    const [gate, queued, parked] = await Promise.all([
      seen(() => store.gate(controller)),
      seen(() => store.queued(controller)),
      seen(() => store.parked(controller)),
    ]);
    return { controller, gate, queued, parked };
  });
  const cache = {
    epoch: seen(() => store.epoch()),
    lineage: seen(() => store.lineage()),
    streams: seen(() => inEpoch((epoch) => probe.streams(epoch))),
    quarantine: seen(() => store.quarantined()),
    forgeries: seen(() => store.forgeries()),
    guard: seen(() => store.guard()),
    intents: seen(() => inEpoch((epoch) => probe.intents(epoch, OWNERS_MAX))),
  };
  const server = await seen(() => probe.server().catch((error: unknown) => Promise.reject(probe.lastError() ?? error)));
  const ifSeen = <T>(part: Seen<T>): Seen<T> => (server.kind === "seen" || part.kind === "seen" ? part : unseen("Redis does not answer"));
  const facts: CacheFacts = {
    epoch: ifSeen(await cache.epoch),
    lineage: ifSeen(await cache.lineage),
    streams: ifSeen(await cache.streams),
    quarantine: ifSeen(await cache.quarantine),
    forgeries: ifSeen(await cache.forgeries),
    guard: ifSeen(await cache.guard),
    intents: ifSeen(await cache.intents),
    controllers: await Promise.all(
      controllers.map(async (found) => {
        const { controller, gate, queued, parked } = await found;
        return { controller, gate: ifSeen(gate), queued: ifSeen(queued), parked: ifSeen(parked) };
      }),
    ),
  };
  probe.close();
  await store.close();
  return { server, cache: facts };
}

async function lookAtQueues({ configuration: { queues } }: LookOptions): Promise<readonly QueueSight[]> {
  const client = sqsClient(queues.endpoint === undefined ? {} : { endpoint: queues.endpoint });
  const urls = [["deltas", queues.deltas], ...Object.entries(queues.doorbells)] as const;
  const sights = urls.map(async ([name, url]): Promise<QueueSight> => {
    const found = await seen(() => queueFacts(client, url));
    const arn = found.kind === "seen" ? found.value.redrive?.deadLetterArn : undefined;
    const deadLetters = await seen(async () => (arn === undefined ? undefined : await queueFactsByArn(client, arn)));
    return { name, seen: found, deadLetters };
  });
  const all = await Promise.all(sights);
  client.destroy();
  return all;
}

/** The connection works; the requested object does not exist. */
class NothingThereError extends Error {
  override readonly name = "NothingThereError";
}

async function seen<T>(read: () => Promise<T>, partMs = PART_MS): Promise<Seen<T>> {
  const from = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new NothingThereError(`no response within ${partMs / 1000} s`)), partMs);
  });
  try {
    const value = await Promise.race([read(), late]);
    const tookMs = performance.now() - from;
    return { kind: "seen", value, tookMs: Math.round(tookMs), atMs: Date.now() - tookMs / 2 };
  } catch (error) {
    const cause = error instanceof StartupError ? error.cause : error; // the finding has its own remedy
    return unseen(cause instanceof NothingThereError ? cause.message : describeError(cause));
  } finally {
    clearTimeout(timer);
  }
}

function unseen(why: string): { readonly kind: "unseen"; readonly why: string } {
  return { kind: "unseen", why };
}
