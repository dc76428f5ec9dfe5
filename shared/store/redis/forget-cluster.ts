import { Cluster } from "ioredis";
import type { Redis } from "ioredis";

import { redisClient } from "./client.ts";
import { deploymentKeys } from "./keys.ts";

/** Number of keys that one call scans, and about the maximum that it deletes. */
const KEYS_PER_CALL = 1_000;

interface RedisAddress {
  readonly url: string;
  readonly cluster: boolean;
}

/**
 * Deletes all keys of a cluster that the deployment no longer serves. The epoch is the first, so that runs in flight write no more.
 * Stops between two calls when `signal` aborts.
 *
 * @throws when Redis does not answer
 */
export async function forgetCluster(options: RedisAddress, deployment: string, cluster: string, signal: AbortSignal): Promise<void> {
  const { prefix, epoch } = deploymentKeys(deployment, cluster);
  await scan(
    options,
    `${prefix}*`,
    async (node, keys) => void (await node.unlink(...keys)),
    signal,
    async (client) => void (await client.unlink(epoch)),
  );
}

/** Returns the ids of all clusters that have a cache in the deployment. @throws when Redis does not answer */
export async function cachedClusters(options: RedisAddress, deployment: string, signal: AbortSignal): Promise<readonly string[]> {
  const { prefix, epoch } = deploymentKeys(deployment, "*");
  const [start = "", end = ""] = epoch.split("*");
  const found = new Set<string>();
  const collect = async (_node: Redis, keys: readonly string[]): Promise<void> => {
    for (const key of keys) if (key.endsWith(end)) found.add(key.slice(start.length, -end.length));
    await Promise.resolve();
  };
  await scan(options, `${prefix}ep`, collect, signal);
  return [...found];
}

/** Returns those of the cluster ids that have an epoch in the deployment. @throws when Redis does not answer */
export async function cachedAmong(options: RedisAddress, deployment: string, cids: readonly string[]): Promise<ReadonlySet<string>> {
  const client = redisClient(options);
  client.on("error", () => undefined); // the calls report it
  try {
    const found = await Promise.all(cids.map(async (cid) => (await client.exists(deploymentKeys(deployment, cid).epoch)) > 0));
    return new Set(cids.filter((_, i) => found[i]));
  } finally {
    client.disconnect();
  }
}

/** Calls `each` with the keys that match, until `signal` aborts. */
async function scan(
  options: RedisAddress,
  pattern: string,
  each: (node: Redis, keys: readonly string[]) => Promise<void>,
  signal: AbortSignal,
  before?: (client: Redis | Cluster) => Promise<void>,
): Promise<void> {
  const client = redisClient(options);
  client.on("error", () => undefined); // the calls report it
  try {
    await before?.(client);
    for (const node of client instanceof Cluster ? client.nodes("master") : [client]) {
      for (let cursor = ""; cursor !== "0" && !signal.aborted;) {
        const [next, keys] = await node.scan(cursor === "" ? "0" : cursor, "MATCH", pattern, "COUNT", KEYS_PER_CALL);
        cursor = next;
        if (keys.length > 0 && !signal.aborted) await each(node, keys);
      }
    }
  } finally {
    client.disconnect();
  }
}
