/**
 * The outside world that a Configuration names, made in one place: for the functions, the watcher, and whoever else looks at the
 * same cache from a person's machine.
 */
import { redisClient } from "../adapters/redis/client.ts";
import { createRedisStore } from "../adapters/redis/redis-store.ts";
import { sqsCalls } from "../adapters/sqs/calls.ts";
import type { SqsCalls } from "../adapters/sqs/calls.ts";
import { createSqsDoorbells } from "../adapters/sqs/doorbells.ts";
import type { StoreIdentity, StoreOptions } from "../adapters/store-options.ts";
import { createSystemClock } from "../adapters/system/clock.ts";
import { createSystemRandom } from "../adapters/system/random.ts";
import { createDigester } from "../api/digest.ts";
import type { Digester } from "../api/digest.ts";
import { createSigner } from "../api/signer.ts";
import type { Signer } from "../api/signer.ts";
import { cacheIdentity } from "../cache/identity.ts";
import type { Clock } from "../ports/clock.ts";
import type { Doorbells } from "../ports/doorbells.ts";
import type { Random } from "../ports/random.ts";
import type { Store } from "../ports/store.ts";
import { HOLE_LIMIT_MS } from "../ports/times.ts";
import type { Configuration } from "./configuration.ts";

/** What names a cache, and the keys without which it cannot be read. */
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
 * The cache of one cluster. `make` says where it lives: `redisStore`, or the Store in memory. `signer`: one that follows its keys, instead
 * of the configuration's.
 */
export function openCache(
  { deployment, cluster, digestKey, macKeys, mode, guard }: CacheConfiguration,
  make: MakeStore,
  signer: Signer = createSigner(macKeys, cluster),
): Cache {
  const digester = createDigester(digestKey);
  const identity = cacheIdentity(digester);
  const ignoresStop = mode === "shadow" || guard === "off";
  return { store: make({ deployment, cluster, identity, signer, holeLimitMs: HOLE_LIMIT_MS, ignoresStop }), identity, digester, signer };
}

/** A Store on a connection of its own, which its `close` ends. `onError` hears of it when it is lost between calls; calls fail by themselves. */
export function redisStore(redis: Configuration["redis"], onError?: (error: Error) => void): MakeStore {
  return (options) => {
    const client = redisClient(redis);
    if (onError) client.on("error", onError);
    return { ...createRedisStore(client, { ...options, durability: redis.durability ?? "C" }), close: async () => client.disconnect() };
  };
}

export interface Connections extends Cache {
  readonly clock: Clock;
  readonly random: Random;
  readonly sqs: SqsCalls;
  readonly doorbells: Doorbells;
  close(): Promise<void>;
}

/** Everything outside but the API server, for which each component has credentials of its own. */
export function connect(configuration: CacheConfiguration & Pick<Configuration, "queues">, make: MakeStore, signer?: Signer): Connections {
  const { endpoint, doorbells: queueUrls } = configuration.queues;
  const cache = openCache(configuration, make, signer);
  const sqs = sqsCalls(endpoint === undefined ? {} : { endpoint });
  return {
    ...cache,
    clock: createSystemClock(),
    random: createSystemRandom(),
    sqs,
    doorbells: createSqsDoorbells(sqs, { queueUrls, cid: configuration.cluster }),
    close: async () => {
      await cache.store.close();
      sqs.close();
    },
  };
}
