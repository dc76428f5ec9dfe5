import type { Digester } from "@deltaloop/kube/pod-template";
import type { EpochRecord } from "@deltaloop/store/ports";

/**
 * Version of `strip` and of the slices. A build that caches different data needs another number, which starts a new epoch.
 *
 * 2: annotations are sent and stored as digests, and messages and rows carry a MAC. Unsigned data of version 1 is not used.
 */
const PROJECTION_VERSION = 2;

/** Identity of an epoch that this build can read and write; watcher and functions of one installation must agree on it. */
export function cacheIdentity(digester: Digester): Pick<EpochRecord, "projection" | "digestPrefix" | "hashLayout"> {
  const [oldest, newest] = [digester.releases[0], digester.releases.at(-1)];
  return { projection: PROJECTION_VERSION, digestPrefix: digester.prefix, hashLayout: `v${oldest?.name}-v${newest?.name}` };
}
