/** The environment of a schedule: a Store on the schedule's clock, and access to data that the Store's interface does not expose. */
import type { Redis } from "ioredis";
import { HOLE_LIMIT_MS } from "../../../shared/base/times.ts";
import type { OwnerId } from "../../../shared/kube/objects/owner-id.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import { DRAWN_FIELD } from "../../../shared/store/decision-mark.ts";
import type { Store } from "../../../shared/store/ports/store.ts";
import { deploymentKeys } from "../../../shared/store/redis/keys.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { IDENTITY } from "../../harness/store/store.ts";
import { testSigner } from "../../support/signer.ts";

export const [DEPLOYMENT, EPOCH, START_MS] = ["schedules", "e1", 1_772_359_200_000];

/** A Store that schedules use one after the other; each leaves it empty. */
export interface Ground {
  readonly store: Store;
  /** The clock of the Store's server. */
  readonly clock: { now: () => number; after: () => Promise<never> };
  watermark(resource: CachedResource, lane: number): Promise<string>;
  /** The number of pending intents, for each owner that has any. */
  intents(): Promise<ReadonlyMap<OwnerId, number>>;
  /** Saves the Store's content; the returned function restores it. */
  snapshot(): Promise<() => Promise<void>>;
  /** Moves the content to another primary, so that the Store's server id changes. */
  failOver(): Promise<void>;
  clear(): Promise<void>;
}

/** Options of a Store on the clock of a schedule. */
export function storeOptions(cluster: string) {
  const clock = { now: () => START_MS, after: (): Promise<never> => Promise.reject(new Error("unexpected wait on the Store's clock")) };
  return { deployment: DEPLOYMENT, cluster, identity: IDENTITY, holeLimitMs: HOLE_LIMIT_MS, signer: testSigner(DEPLOYMENT), clock };
}

/** `without` returns the Store without one of its rules. */
export function createRedisGround(client: Redis, cluster: string, without: (store: Store) => Store = (store) => store): Ground {
  const options = storeOptions(cluster);
  const names = deploymentKeys(DEPLOYMENT, cluster).of(EPOCH);
  const keys = async (): Promise<readonly string[]> => (await client.scan("0", "MATCH", `*{${cluster}}*`, "COUNT", 100_000))[1];
  const clear = async (): Promise<void> => {
    const all = await keys();
    if (all.length > 0) await client.unlink(...all);
  };
  return {
    store: without(createRedisStore(client, options)),
    clock: options.clock,
    clear,
    watermark: async (resource, lane) => (await client.hget(names.lane(resource, lane)[0], "W")) ?? "0",
    intents: async () => {
      const prefix = names.intents("");
      const pending = async (key: string): Promise<readonly [OwnerId, number]> => {
        const ops = Object.keys(await client.hgetall(key));
        return [key.slice(prefix.length), ops.filter((field) => field.startsWith("t:") && field !== DRAWN_FIELD).length];
      };
      return new Map(await Promise.all((await keys()).filter((key) => key.startsWith(prefix)).map(pending)));
    },
    failOver: async () => {
      for (const resource of CACHED_RESOURCES)
        if ((await client.exists(names.meta(resource))) > 0) await client.hset(names.meta(resource), "primary", "a1b2");
    },
    snapshot: async () => {
      const dumps = await Promise.all((await keys()).map(async (key) => [key, await client.dumpBuffer(key)] as const));
      return async () => {
        await clear();
        for (const [key, dump] of dumps) await client.restore(key, 0, dump);
      };
    },
  };
}
