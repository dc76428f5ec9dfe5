/** Configuration of the ioredis client. */
import { Cluster, Command, Redis } from "ioredis";
import type { RedisOptions } from "ioredis";

import { REDIS_COMMAND_TIMEOUT_MS, REDIS_CONNECT_TIMEOUT_MS } from "@deltaloop/base";
import { inputDeadline } from "@deltaloop/base/system";

/**
 * Calls are retried for 0.7 s across reconnects. Failing earlier would be worse: a call without a response may have registered an intent
 * that blocks the owner for 20 s.
 */
const TRIES_MAX = 5;
/** The client reconnects within half a second, regardless of the length of the outage. */
const [RECONNECT_STEP_MS, RECONNECT_MS_MAX] = [50, 500];
/** ioredis: the command was not executed, so it is sent again. */
const RECONNECT_AND_RESEND = 2;

/** The state that ioredis keeps for a command; it clears the timer with the response. */
interface TimedCommand {
  isSettled: boolean;
  _commandTimeoutTimer?: NodeJS.Timeout;
  reject(error: Error): void;
}

/** ioredis' own timer would fail the commands of a process that was paused, although their responses have arrived. */
Object.assign(Command.prototype, {
  setTimeout(this: TimedCommand, ms: number): void {
    const expire = (): void => {
      if (!this.isSettled) this.reject(new Error("Command timed out"));
    };
    this._commandTimeoutTimer ??= inputDeadline(expire, ms);
  },
});

/**
 * Connects in the background; earlier calls wait. Auto-pipelining is off: each verb is one command, and when ioredis groups a cluster's
 * commands it mistakes a custom command's first argument (the number of keys) for its key. A lost connection is reported to listeners of
 * `error` only.
 */
export function redisClient(options: { readonly url: string; readonly cluster: boolean }): Redis | Cluster {
  const redis = {
    commandTimeout: REDIS_COMMAND_TIMEOUT_MS,
    connectTimeout: REDIS_CONNECT_TIMEOUT_MS,
    maxRetriesPerRequest: TRIES_MAX,
    keepAlive: 10_000,
    retryStrategy: (attempt) => Math.min(attempt * RECONNECT_STEP_MS, RECONNECT_MS_MAX),
    // The server has become a replica and keeps its connections, but its address now resolves to the new primary.
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
    // During a slot migration Redis rejects scripts (TRYAGAIN) until all their keys have moved.
    retryDelayOnTryAgain: 50,
    maxRedirections: 64,
  });
  return cluster.on("error", forgetCommand).on("node error", forgetCommand);
}

/**
 * Removes the command that ioredis attaches to an error: the command of a login contains the password, which Lambda would log with the
 * error. Calls that wait for the login fail with this same error object.
 */
function forgetCommand(error: Error): void {
  Reflect.deleteProperty(error, "command");
}
