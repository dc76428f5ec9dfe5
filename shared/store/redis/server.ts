/** What a Redis says of itself that decides whether it may be used (informer §11.1). INFO: managed services refuse CONFIG. */
import type { Cluster, Redis } from "ioredis";
import { redisClient } from "./client.ts";

/** This Redis would forget part of the truth by itself. Whoever runs it sets another policy. */
export class UnfitRedisError extends Error {
  override readonly name = "UnfitRedisError";
}

/** The same on a connection that ends with it. @throws {Error} when there is none. */
export async function inspectRedis(redis: Parameters<typeof redisClient>[0]): Promise<void> {
  const client = redisClient(redis).on("error", () => undefined); // the call says it
  try {
    await requireNoEviction(client);
  } finally {
    client.disconnect();
  }
}

/** @throws {UnfitRedisError} when it may evict keys. One that does not say is believed. */
export async function requireNoEviction(client: Redis | Cluster): Promise<void> {
  const problem = evictionProblem(await client.info("memory"));
  if (problem !== undefined) throw new UnfitRedisError(problem);
}

/** `info`: section "memory". */
export function evictionProblem(info: string): string | undefined {
  const policy = infoField(info, "maxmemory_policy");
  if (policy === undefined || policy === "noeviction") return undefined;
  return `Redis has maxmemory-policy ${policy} and would evict part of the cache: set it to noeviction (CONFIG SET maxmemory-policy noeviction, or the parameter group of the service)`;
}

/** What INFO tells; absent is what this server does not say. */
export interface RedisServerFacts {
  /** `7.0.15`; a Valkey says here which Redis it speaks like. */
  readonly version?: string;
  readonly role?: string;
  /** Those that are connected. */
  readonly replicas: number;
  readonly policy?: string;
  /** Keys evicted since the server's start. */
  readonly evicted: number;
  readonly usedBytes: number;
  /** 0: as much as the machine has. */
  readonly maxBytes: number;
  readonly appendOnly: boolean;
  /** Its last snapshot or write of the append-only file failed: as it is set up by default it then refuses writes. */
  readonly saveFailed: boolean;
  /** It still reads its own file. */
  readonly loading: boolean;
}

/** `info`: the default sections. */
export function serverFacts(info: string): RedisServerFacts {
  const text = (name: string): string | undefined => infoField(info, name);
  const number = (name: string): number => Number(text(name) ?? 0);
  const [version, role, policy] = [text("redis_version"), text("role"), text("maxmemory_policy")];
  return {
    ...(version !== undefined && { version }),
    ...(role !== undefined && { role }),
    ...(policy !== undefined && { policy }),
    replicas: number("connected_slaves"),
    evicted: number("evicted_keys"),
    usedBytes: number("used_memory"),
    maxBytes: number("maxmemory"),
    appendOnly: number("aof_enabled") === 1,
    saveFailed: ["rdb_last_bgsave_status", "aof_last_write_status"].some((name) => text(name) === "err"),
    loading: number("loading") === 1,
  };
}

function infoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(\\S+)`, "m").exec(info)?.[1];
}
