/** The data of a deployment in its queues and in Redis. */
import { redisClient } from "../../../shared/store/redis/client.ts";
import type { LocalDeltaloop } from "../../../infra/local/stack.ts";
import { bodyText } from "../canaries.ts";

/**
 * Adds to `bodies` the bodies of messages in the delta queue and the doorbell queues, visible or in flight, as LocalStack shows them, until
 * `signal` aborts.
 */
export async function watchMessages({ localStack, queueUrls }: LocalDeltaloop, bodies: Set<string>, signal: AbortSignal): Promise<void> {
  const urls = [queueUrls.deltas, ...Object.values(queueUrls.doorbells)];
  while (!signal.aborted) {
    for (const url of urls) {
      const path = `/_aws/sqs/messages?ShowInvisible=true&QueueUrl=${encodeURIComponent(url)}`;
      const answer = await fetch(`${localStack.endpoint}${path}`, { headers: { accept: "application/json" } });
      for (const [, body] of (await answer.text()).matchAll(/"Body": ?("(?:[^"\\]|\\.)*")/g))
        bodies.add(bodyText(String(JSON.parse(body ?? '""'))));
    }
  }
}

/** Every Redis key with its value. */
export async function dump({ redisUrl }: LocalDeltaloop): Promise<readonly string[]> {
  return await withRedis(redisUrl, async (redis) => {
    const values = (await redis.keys("*")).map(async (key) => {
      const type = await redis.type(key);
      if (type === "hash") return [key, ...Object.entries(await redis.hgetall(key)).flat()];
      if (type === "zset") return [key, ...(await redis.zrange(key, "0", "-1"))];
      if (type === "set") return [key, ...(await redis.smembers(key))];
      if (type === "list") return [key, ...(await redis.lrange(key, 0, -1))];
      return [key, (await redis.get(key)) ?? ""];
    });
    return (await Promise.all(values)).flat();
  });
}

/** The number of completed lists of each resource in the given epoch. */
export async function generations({ redisUrl }: LocalDeltaloop, epoch: string): Promise<Readonly<Record<string, number>>> {
  return await withRedis(redisUrl, async (redis) => {
    const counts: Record<string, number> = {};
    for (const key of await redis.keys(`*:${epoch}:m:*`)) counts[key.split(":").at(-1) ?? ""] = Number(await redis.hget(key, "syncedGen"));
    return counts;
  });
}

/** Runs FLUSHALL. */
export async function loseRedis({ redisUrl }: LocalDeltaloop): Promise<void> {
  await withRedis(redisUrl, async (redis) => void (await redis.flushall()));
}

async function withRedis<T>(url: string, use: (redis: ReturnType<typeof redisClient>) => Promise<T>): Promise<T> {
  const redis = redisClient({ url, cluster: false });
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}
