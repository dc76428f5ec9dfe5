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
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy === undefined || policy === "noeviction") return undefined;
  return `Redis has maxmemory-policy ${policy} and would evict part of the cache: set it to noeviction (CONFIG SET maxmemory-policy noeviction, or the parameter group of the service)`;
}
