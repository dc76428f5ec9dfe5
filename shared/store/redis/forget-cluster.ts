import { Cluster } from "ioredis";

import { redisClient } from "./client.ts";
import { deploymentKeys } from "./keys.ts";

/** Number of keys that one call scans, and about the maximum that it deletes. */
const KEYS_PER_CALL = 1_000;

/**
 * Deletes all keys of a cluster that the deployment no longer serves. The epoch is the first, so that runs in flight write no more.
 * Stops between two calls when `signal` aborts.
 *
 * @throws when Redis does not answer
 */
export async function forgetCluster(
  options: { readonly url: string; readonly cluster: boolean },
  deployment: string,
  cluster: string,
  signal: AbortSignal,
): Promise<void> {
  const { prefix, epoch } = deploymentKeys(deployment, cluster);
  const client = redisClient(options);
  client.on("error", () => undefined); // the calls report it
  try {
    await client.unlink(epoch);
    for (const node of client instanceof Cluster ? client.nodes("master") : [client]) {
      for (let cursor = ""; cursor !== "0" && !signal.aborted;) {
        const [next, keys] = await node.scan(cursor === "" ? "0" : cursor, "MATCH", `${prefix}*`, "COUNT", KEYS_PER_CALL);
        cursor = next;
        if (keys.length > 0 && !signal.aborted) await node.unlink(...keys);
      }
    }
  } finally {
    client.disconnect();
  }
}
