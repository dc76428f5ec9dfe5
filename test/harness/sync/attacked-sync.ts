/**
 * A real redis-server, an API server over HTTP, and the functions. The attacker holds the Redis URL, has seen every row ever stored, and
 * has no MAC key: it may write any value and replay every value that it has read.
 */
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach } from "vitest";

import { deploymentKeys } from "../../../shared/store/redis/keys.ts";
import { laneOf, LANES } from "../../../shared/store/lane.ts";
import { primaryAsOwner, type OwnerId } from "../../../shared/kube/objects/owner-id.ts";
import { objectKey, type CachedResource, type ObjectKey } from "../../../shared/kube/objects/resources.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../../support/redis.ts";
import { CACHE, startCountedSync, type CountedSync } from "./counted-sync.ts";

/** The reason why redis-server is unavailable; the attacks are then skipped. */
export const NO_REDIS = ensureRedisServer();

export const US = "\x1f";
/** A forged signature with the id of an existing key (AA). */
export const SIGNATURE = `AA${"x".repeat(22)}`;
const MERGE = "application/merge-patch+json";

export interface AttackedSync extends CountedSync {
  /** The attacker's connection. */
  readonly redis: Redis;
  readonly epochKey: string;
  /** Pod requests of deltaloop's controllers to the API server, as `delete shop/web-x`, without reads. */
  readonly writes: readonly string[];
  readonly row: (resource: CachedResource, key: ObjectKey) => readonly [hash: string, field: string];
  readonly tombstone: (resource: CachedResource, key: ObjectKey) => readonly [hash: string, field: string];
  readonly slice: (resource: CachedResource, owner: OwnerId) => string;
  /** A ReplicaSet with all its pods, after all affected keys have run. */
  replicaSet(name: string, replicas: number): Promise<OwnerId>;
  scale(name: string, replicas: number): Promise<void>;
  /** Enqueues the ReplicaSet with an ordinary change. */
  touch(name: string): Promise<void>;
  barePod(namespace: string, name: string): Promise<void>;
  pods(namespace?: string): Promise<readonly { readonly key: ObjectKey; readonly uid: string }[]>;
}

/** Starts one server per test file and an empty cache per test. */
export function useAttackedSync(): () => AttackedSync {
  let server: RedisServer;
  let redis: Redis;
  let harness: AttackedSync;
  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis(server.url);
  });
  afterAll(async () => {
    redis.disconnect();
    await server.stop();
  });
  beforeEach(async () => {
    harness = attack(await startCountedSync(server.url), redis);
    for (const name of ["shop", "vault"]) await harness.person.request("POST", "/api/v1/namespaces", { metadata: { name } });
  });
  afterEach(() => harness.close());
  return () => harness;
}

function attack(harness: CountedSync, redis: Redis): AttackedSync {
  const writes: string[] = [];
  harness.server.onRequest(({ userAgent, verb, resource, namespace, name }) => {
    if (userAgent.startsWith("deltaloop/") && resource === "pods" && verb !== "get" && verb !== "list")
      writes.push(`${verb} ${namespace}/${name}`);
  });
  const path = (resource: "replicasets" | "pods", namespace = "shop"): string =>
    `${resource === "pods" ? "/api/v1" : "/apis/apps/v1"}/namespaces/${namespace}/${resource}`;
  const settled = async (): Promise<void> => {
    await harness.stream();
    await harness.settle();
  };
  const at = (part: 1 | 2) => (resource: CachedResource, key: ObjectKey) =>
    [harness.names.lane(resource, laneOf(key, LANES[resource]))[part], key] as const;
  const more: Omit<AttackedSync, keyof CountedSync> = {
    redis,
    epochKey: deploymentKeys(CACHE.deployment, CACHE.cluster).epoch,
    writes,
    row: at(1),
    tombstone: at(2),
    slice: (resource, owner) => harness.names.slice(resource, owner),
    async replicaSet(name, replicas) {
      const object = await harness.person.request("POST", path("replicasets"), {
        metadata: { name },
        spec: {
          replicas,
          selector: { matchLabels: { app: name } },
          template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: "c", image: "i" }] } },
        },
      });
      await settled();
      const { uid } = object["metadata"] as { readonly uid: string }; // every object has metadata
      return primaryAsOwner("replicaset", objectKey("shop", name), uid);
    },
    async scale(name, replicas) {
      await harness.person.request("PATCH", `${path("replicasets")}/${name}`, { spec: { replicas } }, MERGE);
      await settled();
    },
    async touch(name) {
      await harness.person.request(
        "PATCH",
        `${path("replicasets")}/${name}`,
        { metadata: { labels: { touched: String(harness.server.resourceVersion) } } },
        MERGE,
      );
      await settled();
    },
    async barePod(namespace, name) {
      await harness.person.request("POST", path("pods", namespace), {
        metadata: { name },
        spec: { containers: [{ name: "c", image: "i" }] },
      });
      await settled();
    },
    async pods(namespace = "shop") {
      const { items } = await harness.person.list(path("pods", namespace));
      return items
        .map(({ metadata }) => metadata as { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string }) // the items are API objects
        .filter(({ deletionTimestamp }) => deletionTimestamp === undefined)
        .map(({ name, uid }) => ({ key: objectKey(namespace, name), uid }));
    },
  };
  return Object.defineProperties(harness, Object.getOwnPropertyDescriptors(more)) as AttackedSync; // keeps the getters of the object
}
