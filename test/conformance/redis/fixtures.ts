/** The Stores of the suites: one in Redis with a clock that the test controls, and the memory Store as its reference. */
import { afterAll, beforeAll } from "vitest";
import { spoil } from "../../../shared/store/memory/store/forged.ts";
import { deploymentKeys } from "../../../shared/store/redis/keys.ts";
import { CACHED_RESOURCES, type CachedResource } from "../../../shared/kube/objects/resources.ts";
import { laneOf } from "../../../shared/store/lane.ts";
import type { Forged } from "../../../shared/store/ports/store.ts";
import { startRedis, type RedisServer } from "../../support/redis.ts";
import { testSigner } from "../../support/signer.ts";
import { Cluster, Redis } from "ioredis";
import { redisAccessOf } from "../../../shared/controllers/registry/redis-access.ts";
import { REGISTRY } from "../../../shared/controllers/registry/registry.ts";
import { createMemoryData } from "../../../shared/store/memory/store/data.ts";
import { createMemoryStore } from "../../../shared/store/memory/store/store.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { createServerClock } from "../../harness/store/server-clock.ts";
import type { StoreFactory } from "../store.ts";

/** 2026-03-01T10:00:00Z. No test may depend on this date. */
const START_MS = 1_772_359_200_000;

/** Starts one server and one client for the tests in the surrounding `describe`. */
export function suiteRedis(): { readonly server: RedisServer; readonly client: Redis } {
  let server: RedisServer;
  let client: Redis;
  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.url);
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });
  return {
    get server() {
      return server;
    },
    get client() {
      return client;
    },
  };
}

/** A fixture on one server, which is flushed first. `connect` creates the client. */
export function redisFixture(connect: () => Redis): StoreFactory {
  return async (options) => {
    const client = connect();
    await client.flushall();
    return {
      ...stores(client, options),
      flush: async () => void (await client.flushall()),
      // Changes the recorded primary, because the server remains the same.
      failOver: async () => {
        for (const resource of CACHED_RESOURCES) await client.hset(await metaOf(client, options, resource), "primary", "a1b2");
      },
      snapshot: async () => {
        const dumps = await Promise.all((await client.keys("*")).map(async (key) => [key, await client.dumpBuffer(key)] as const));
        return async () => {
          await client.flushall();
          for (const [key, dump] of dumps) await client.restore(key, 0, dump);
        };
      },
      close: async () => client.disconnect(),
    };
  };
}

/**
 * Like redisFixture, but each call runs as the ACL users of the functions that make it, in turn; other calls run as a user with all rights.
 */
export function functionUsersFixture(url: string): StoreFactory {
  const make = redisFixture(() => new Redis(url));
  return async (options) => {
    const fixture = await make(options);
    const admin = new Redis(url);
    const users = redisAccessOf(REGISTRY).map(({ name, methods, controllers, rules }) => {
      const username = `${options.deployment}-${name}`;
      const client = new Redis(url, { username, password: "password", lazyConnect: true });
      const store = createRedisStore(client, { ...options, signer: testSigner(options.cluster), clock: fixture.clock });
      return { username, methods, controllers, rules: rules(options.deployment), client, store };
    });
    for (const { username, rules } of users) await admin.call("ACL", "SETUSER", username, "reset", ...rules.split(" "), ">password");
    const calls = new Map<string | symbol, number>();
    const store = new Proxy(fixture.store, {
      get(target, method) {
        const theirs = users.filter(({ methods }) => methods.some((name) => name === method));
        return (...args: readonly [unknown, ...unknown[]]) => {
          const { controller } = args[0] instanceof Object ? (args[0] as { readonly controller?: string }) : {}; // a Taken
          const whose = method === "correlateEvents" ? args[0] : controller;
          const able = theirs.filter(({ controllers }) => typeof whose !== "string" || (controllers?.includes(whose) ?? true));
          const nth = calls.get(method) ?? 0;
          calls.set(method, nth + 1);
          return (Reflect.get(able[nth % able.length]?.store ?? target, method) as (...all: readonly unknown[]) => unknown)(...args);
        };
      },
    });
    const close = async (): Promise<void> => {
      for (const { client } of users) client.disconnect();
      admin.disconnect();
      await fixture.close();
    };
    return { ...fixture, store, close };
  };
}

/** A fixture on a cluster, which is flushed first. It has no snapshots, because its keys may have moved in between. */
export function clusterFixture(connect: () => Cluster): StoreFactory {
  return async (options) => {
    const client = connect();
    const flush = async (): Promise<void> => {
      await client.ping(); // the client knows the nodes only once it is connected
      await Promise.all(client.nodes("master").map((node) => node.flushall()));
    };
    await flush();
    return { ...stores(client, options), flush, close: async () => client.disconnect() };
  };
}

function stores(
  client: Redis | Cluster,
  options: Parameters<StoreFactory>[0],
): Pick<Awaited<ReturnType<StoreFactory>>, "store" | "clock" | "beside" | "spoil" | "lose" | "kept"> {
  const clock = createServerClock(START_MS);
  return {
    store: createRedisStore(client, { ...options, signer: testSigner(options.cluster), clock }),
    clock,
    spoil: (forged) => spoilRedis(client, options, forged),
    kept: async (epoch) => {
      const nodes = client instanceof Cluster ? client.nodes("master") : [client];
      const pattern = `dl:${options.deployment}:{${options.cluster}}:${epoch}:*`;
      return (await Promise.all(nodes.map(async (node) => await node.keys(pattern)))).flat().length;
    },
    lose: async (resource) => void (await client.del(await metaOf(client, options, resource))),
    beside: async (extra) =>
      createRedisStore(client, { ...options, ...extra, signer: testSigner(extra.cluster ?? options.cluster), clock }),
  };
}

export const memoryFixture: StoreFactory = async (options) => {
  const clock = createServerClock(START_MS);
  const data = createMemoryData();
  return {
    store: createMemoryStore({ ...options, clock }, data),
    clock,
    spoil: async (forged) => spoil(data, forged),
    beside: async ({ cluster, ...extra }) =>
      createMemoryStore({ ...options, ...extra, clock }, cluster === undefined ? data : createMemoryData()),
    flush: async () => {
      data.epoch = undefined;
      data.forgeries = [];
      data.events = createMemoryData().events;
      data.guard = createMemoryData().guard;
    },
    failOver: async () => void (data.primary += "'"),
    kept: async (epoch) => (data.epoch?.record.epoch === epoch ? data.epoch.resources.size : 0),
    lose: async (resource) => void data.epoch?.resources.delete(resource),
    close: async () => {},
  };
};

async function metaOf(client: Redis | Cluster, options: Parameters<StoreFactory>[0], resource: CachedResource): Promise<string> {
  const root = deploymentKeys(options.deployment, options.cluster);
  return root.of((await client.hget(root.epoch, "epoch")) ?? "").meta(resource);
}

/** Changes a value as another client of Redis could: the text replaces the value; an empty text deletes the field. */
async function spoilRedis(
  client: Redis | Cluster,
  options: Parameters<StoreFactory>[0],
  { resource, key, where, slice, text }: Forged,
): Promise<void> {
  const root = deploymentKeys(options.deployment, options.cluster);
  const names = root.of((await client.hget(root.epoch, "epoch")) ?? "");
  const lanes = Number((await client.hget(names.meta(resource), "lanes")) ?? 1);
  const [, v, t] = names.lane(resource, laneOf(key, lanes));
  const hash = where === "row" ? v : where === "tombstone" ? t : names.slice(resource, slice ?? "");
  if (text === "") await client.hdel(hash, key);
  else await client.hset(hash, key, text);
}
