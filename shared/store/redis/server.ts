/** Properties of a Redis server that decide whether it is usable (informer §11.1). From INFO, because managed services reject CONFIG. */
import type { Cluster, Redis } from "ioredis";
import { redisClient } from "./client.ts";

/** Thrown for a Redis that is too old or would evict part of the cache. The operator must replace the server or set another policy. */
export class UnfitRedisError extends Error {
  override readonly name = "UnfitRedisError";
}

/** Inspects a server on a temporary connection. @throws {UnfitRedisError}; {Error} if it cannot connect */
export async function inspectRedis(redis: Parameters<typeof redisClient>[0]): Promise<void> {
  const client = redisClient(redis).on("error", () => undefined); // `info` rejects if the connection fails
  try {
    const info = await client.info();
    throwIf(versionProblem(infoField(info, "redis_version")) ?? evictionProblem(info));
  } finally {
    client.disconnect();
  }
}

/** Requires a supported version. @throws {UnfitRedisError} if the server is too old; accepts a server that rejects INFO */
export async function requireVersion(client: Redis | Cluster): Promise<void> {
  const info = await client.info("server").catch((error: unknown) => {
    if (error instanceof Error && error.message.startsWith("NOPERM")) return "";
    throw error;
  });
  throwIf(versionProblem(infoField(info, "redis_version")));
}

function throwIf(problem: string | undefined): void {
  if (problem !== undefined) throw new UnfitRedisError(problem);
}

/** Scripts that queue keys need `ZADD LT`, which Redis has since 6.2. Valkey reports the Redis version that it is compatible with. */
export function versionProblem(version: string | undefined): string | undefined {
  if (version === undefined) return undefined;
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > 6 || (major === 6 && minor >= 2)) return undefined;
  return `Redis ${version} is too old: use Redis 6.2 or newer, or Valkey`;
}

/**
 * Returns the problem with the eviction policy in `info` (section "memory"), if any. A `volatile-*` policy evicts keys with an expiry only:
 * the memory of Events (`ev`), whose loss repeats an Event.
 */
export function evictionProblem(info: string): string | undefined {
  const policy = infoField(info, "maxmemory_policy");
  if (policy === undefined || policy === "noeviction" || policy.startsWith("volatile-")) return undefined;
  return `Redis has maxmemory-policy ${policy} and would evict part of the cache: set it to noeviction (CONFIG SET maxmemory-policy noeviction, or the parameter group of the service)`;
}

/** Facts from INFO; a field is absent if the server does not report it. */
export interface RedisServerFacts {
  /** `7.0.15`; for Valkey the Redis version that it is compatible with. */
  readonly version?: string;
  readonly role?: string;
  /** Number of connected replicas. */
  readonly replicas: number;
  readonly policy?: string;
  /** Number of evicted keys since the server's start. */
  readonly evicted: number;
  readonly usedBytes: number;
  /** 0: no limit. */
  readonly maxBytes: number;
  readonly appendOnly: boolean;
  /** The last snapshot or append-only write failed: by default Redis then rejects writes. */
  readonly saveFailed: boolean;
  /** Redis is loading its dataset. */
  readonly loading: boolean;
}

/** Parses `info`, which has the default sections. */
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
