/** The ioredis client as this adapter wants it. */
import { Cluster, Redis } from "ioredis";
import type { RedisOptions } from "ioredis";

import { REDIS_COMMAND_TIMEOUT_MS, REDIS_CONNECT_TIMEOUT_MS } from "@deltaloop/base";

/** A call outlives connections that end for 0.7 s: one that was not answered may have registered what then blocks for 20 s. */
const TRIES_MAX = 5;
/** However long Redis was away, it is found again within half a second. */
const [RECONNECT_STEP_MS, RECONNECT_MS_MAX] = [50, 500];
/** ioredis: nothing was done, so the command goes again. */
const RECONNECT_AND_RESEND = 2;

/**
 * Connects in the background; calls made before wait. Auto-pipelining stays off: each verb is one command already, and
 * ioredis takes a custom command's first argument, the number of keys, for its key when it groups a cluster's commands. A connection that
 * is lost is told to whoever listens for `error`, and to nobody else.
 */
export function redisClient(options: { readonly url: string; readonly cluster: boolean }): Redis | Cluster {
  const redis = {
    commandTimeout: REDIS_COMMAND_TIMEOUT_MS,
    connectTimeout: REDIS_CONNECT_TIMEOUT_MS,
    maxRetriesPerRequest: TRIES_MAX,
    keepAlive: 10_000,
    retryStrategy: (attempt) => Math.min(attempt * RECONNECT_STEP_MS, RECONNECT_MS_MAX),
    // The primary has become a replica and keeps its connections: the address leads to its successor by now.
    reconnectOnError: (error) => (error.message.includes("READONLY") ? RECONNECT_AND_RESEND : false),
  } satisfies RedisOptions;
  if (!options.cluster) return new Redis(options.url, redis).on("error", forgetCommand);
  const url = new URL(options.url);
  const tls = url.protocol === "rediss:" ? { tls: {} } : {};
  const credentials = {
    ...(url.username !== "" && { username: decodeURIComponent(url.username) }),
    ...(url.password !== "" && { password: decodeURIComponent(url.password) }),
  };
  const cluster = new Cluster([{ host: url.hostname, port: Number(url.port || 6379) }], {
    scaleReads: "master",
    redisOptions: { ...redis, ...tls, ...credentials },
    // While a slot moves, scripts are refused (TRYAGAIN) until all its keys have arrived.
    retryDelayOnTryAgain: 50,
    maxRedirections: 64,
  });
  return cluster.on("error", forgetCommand).on("node error", forgetCommand);
}

/**
 * ioredis adds to an error what the refused command was given: of a login the password, which whoever prints an error whole would print, as
 * Lambda does. Calls that wait for the login are refused with this very error, after this.
 */
function forgetCommand(error: Error): void {
  Reflect.deleteProperty(error, "command");
}
