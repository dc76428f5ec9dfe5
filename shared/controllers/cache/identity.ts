import type { Digester } from "@deltaloop/kube/pod-template";
import { LAYOUT_VERSION } from "@deltaloop/kube/pod-template";
import type { EpochRecord } from "@deltaloop/store/ports";

/**
 * Version of `strip` and of the slices together. What this build caches differently gets another number, and so a new epoch.
 *
 * 2: annotations travel as digests, and messages and rows carry a MAC. What stood unsigned may be anybody's, so nothing is taken over.
 */
const PROJECTION_VERSION = 2;

/** What an epoch must say for this build to read and write it: watcher and functions of one installation agree on it. */
export function cacheIdentity(digester: Digester): Pick<EpochRecord, "projection" | "digestPrefix" | "hashLayout"> {
  return { projection: PROJECTION_VERSION, digestPrefix: digester.prefix, hashLayout: `v${LAYOUT_VERSION}` };
}
