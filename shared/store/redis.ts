export { cachedClusters, forgetCluster } from "./redis/forget-cluster.ts";
export { redisClient } from "./redis/client.ts";
export type { Durability } from "./redis/durable.ts";
export { createRedisMembers } from "./redis/members.ts";
export { createRedisProbe } from "./redis/probe.ts";
export type { LaneFacts, OwnerIntents, StreamFacts } from "./redis/probe.ts";
export { createRedisStore } from "./redis/redis-store.ts";
export { UnfitRedisError, inspectRedis, versionProblem } from "./redis/server.ts";
export type { RedisServerFacts } from "./redis/server.ts";
