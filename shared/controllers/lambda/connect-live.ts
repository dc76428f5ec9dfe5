import { describeError } from "@deltaloop/kube/client";
import type { Log } from "@deltaloop/base";
import type { Configuration } from "./configuration.ts";
import { connect, redisStore } from "./connect.ts";
import type { Connections, SharedConnections } from "./connect.ts";
import type { LiveConfiguration } from "./live-configuration.ts";
import type { TakeResult } from "@deltaloop/store/ports";
import { liveSigner } from "./live-signer.ts";

/** Redis errors for a wrong or revoked password. Source: github.com/redis/redis src/acl.c. */
export const NOT_LET_IN = /^(?:WRONGPASS|NOAUTH|ERR invalid password)/;

export interface ConnectLiveOptions {
  readonly anyDigestKey?: boolean;
  readonly shared?: SharedConnections | undefined;
}

/**
 * Connects to everything except the API server. Uses rotated MAC keys at once, and reads the secrets again after Redis rejected a password,
 * unless its connection is shared.
 */
export function connectLive(
  live: LiveConfiguration,
  log: Pick<Log, "warn">,
  { anyDigestKey = false, shared }: ConnectLiveOptions = {},
): Connections {
  const { current } = live;
  const own = (): ReturnType<typeof redisStore> =>
    redisStore(current.redis, (error) => {
      log.warn("redis connection failed", { error: describeError(error) });
      if (NOT_LET_IN.test(error.message)) void live.renew("redis");
    });
  const signer = liveSigner(
    () => live.current.macKeys,
    current.cluster,
    () => void live.renew("macKey"),
  );
  const outside = connect(current, shared?.makeStore ?? own(), { signer, anyDigestKey, ...(shared && { shared }) });
  const { store } = outside;
  return { ...outside, store: { ...store, take: async (...args) => noticed(await store.take(...args)) } };

  /** Reads the secrets again if the epoch has another digest key: the watcher has then read a new key first. */
  function noticed(result: TakeResult): TakeResult {
    if (result.kind === "gated" && result.reason.includes("digestPrefix")) void live.renew("digestKey");
    return result;
  }
}

/**
 * Whether connections made for one configuration can be used with another. They can for new MAC keys and new credentials of the same kind,
 * but not for another digest key, which changes every digest, or another Redis or user.
 */
export function isServedBy(made: Configuration, now: Configuration): boolean {
  const kept = ({ digestKey, redis, kube }: Configuration): string =>
    JSON.stringify([digestKey, redis.url, kube.ca, kube.token !== undefined, kube.certificate !== undefined]);
  return kept(made) === kept(now);
}
