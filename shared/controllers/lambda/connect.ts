/** Connections of a Configuration: for functions, the watcher, and commands on a user's machine. */
import { redisClient, createRedisMembers, createRedisStore } from "@deltaloop/store/redis";
import { sqsCalls, createSqsDoorbells } from "@deltaloop/store/sqs";
import type { SqsCalls } from "@deltaloop/store/sqs";
import type { StoreIdentity, StoreOptions, Signer, Doorbells, Members, Store } from "@deltaloop/store/ports";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { createDigester } from "@deltaloop/kube/pod-template";
import type { Digester } from "@deltaloop/kube/pod-template";
import { ACTING_RELEASES, RELEASED } from "@deltaloop/kube/releases";
import { createSigner } from "@deltaloop/store/ports";
import { cacheIdentity } from "../cache/identity.ts";
import type { Clock, Random } from "@deltaloop/base";
import { HOLE_LIMIT_MS } from "@deltaloop/base";
import { isListedId } from "./configuration.ts";
import type { Configuration } from "./configuration.ts";

/** Identity of a cache, and the keys needed to read it. */
export type CacheConfiguration = Pick<Configuration, "deployment" | "cluster" | "digestKey" | "macKeys"> &
  Partial<Pick<Configuration, "mode" | "guard">>;

export interface Cache {
  readonly store: Store;
  readonly identity: StoreIdentity;
  readonly digester: Digester;
  readonly signer: Signer;
}

type MakeStore = (options: StoreOptions & { readonly signer: Signer }) => Store;

/**
 * Opens the cache of one cluster. `make` chooses the backend: `redisStore`, or the Store in memory. `signer` overrides the configuration's
 * keys, for example with keys that rotate. `anyDigestKey`: accepts an epoch with any digest key, for the sweeper, which compares no
 * digests.
 */
export function openCache(
  { deployment, cluster, digestKey, macKeys, mode, guard }: CacheConfiguration,
  make: MakeStore,
  signer: Signer = createSigner(macKeys, cluster),
  anyDigestKey = false,
): Cache {
  const digester = createDigester(digestKey);
  const identity = { ...cacheIdentity(digester), ...(anyDigestKey && { digestPrefix: "" }) };
  const ignoresStop = mode === "shadow" || guard === "off";
  const releases = (mode === "shadow" ? RELEASED : ACTING_RELEASES).map(({ name }) => name);
  const store = make({ deployment, cluster, identity, releases, signer, holeLimitMs: HOLE_LIMIT_MS, ignoresStop });
  return { store, identity, digester, signer };
}

/** A Store on its own connection, which `close` ends. `onError` reports a lost connection between calls; calls throw their own errors. */
export function redisStore(redis: Configuration["redis"], onError?: (error: Error) => void): MakeStore {
  return (options) => {
    const client = redisClient(redis);
    if (onError) client.on("error", onError);
    return { ...createRedisStore(client, { ...options, durability: redis.durability ?? "C" }), close: async () => client.disconnect() };
  };
}

/** Connections that the clusters of one process share, because a Redis client for each cluster would cost 200 KiB. */
export interface SharedConnections {
  /** Closing such a Store leaves the connection open. */
  readonly makeStore: MakeStore;
  readonly sqs: SqsCalls;
  close(): void;
}

/** Opens connections for several clusters. `onError` reports a lost connection to Redis between calls. */
export function shareConnections(
  { redis, queues: { endpoint } }: Pick<Configuration, "redis" | "queues">,
  onError: (error: Error) => void,
): SharedConnections & {
  /** The watchers of a deployment, for a configuration that is not of one cluster. */
  members(configuration: Pick<Configuration, "deployment" | "cluster" | "macKeys">): Members;
} {
  const client = redisClient(redis).on("error", onError);
  const sqs = sqsCalls(endpoint === undefined ? {} : { endpoint });
  const durability = redis.durability ?? "C";
  return {
    makeStore: (options) => createRedisStore(client, { ...options, durability }),
    sqs,
    members: ({ deployment, cluster, macKeys }) => createRedisMembers(client, { deployment, signer: createSigner(macKeys, cluster) }),
    close() {
      client.disconnect();
      sqs.close();
    },
  };
}

export interface Connections extends Cache {
  readonly clock: Clock;
  readonly random: Random;
  readonly sqs: SqsCalls;
  readonly doorbells: Doorbells;
  close(): Promise<void>;
}

/** Options of `connect`. `signer` and `anyDigestKey`: as for `openCache`. */
export interface ConnectOptions {
  readonly signer?: Signer;
  readonly anyDigestKey?: boolean;
  readonly shared?: Pick<SharedConnections, "sqs">;
}

/** Connects to everything except the API server, for which each component has its own credentials. */
export function connect(
  configuration: CacheConfiguration & Pick<Configuration, "queues">,
  make: MakeStore,
  { signer, anyDigestKey, shared }: ConnectOptions = {},
): Connections {
  const { endpoint, doorbells: queueUrls } = configuration.queues;
  const { cluster: cid } = configuration;
  const cache = openCache(configuration, make, signer, anyDigestKey);
  const sqs = shared?.sqs ?? sqsCalls(endpoint === undefined ? {} : { endpoint });
  return {
    ...cache,
    clock: createSystemClock(),
    random: createSystemRandom(),
    sqs,
    doorbells: createSqsDoorbells(sqs, { queueUrls, cid, ...(isListedId(cid) && { signer: cache.signer }) }),
    close: async () => {
      await cache.store.close();
      if (!shared) sqs.close();
    },
  };
}
