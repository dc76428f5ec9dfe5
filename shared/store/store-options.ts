/** What a Store adapter is made with; `shared/store/memory` and `shared/store/redis` take the same. */
import type { Clock } from "@deltaloop/base";

export interface StoreOptions {
  /** Names this installation: shadow and live may watch one cluster side by side and share nothing. */
  readonly deployment: string;
  /** Cluster id. */
  readonly cluster: string;
  /** What this build reads and writes; an epoch made by another one shuts the gate (informer §11.6, §11.7). */
  readonly identity: StoreIdentity;
  /** The gate shuts when a lane has had a hole for longer: 2,000 on FIFO queues, 15,000 on standard ones (informer §19). */
  readonly holeLimitMs: number;
  /** GD7: shadow, and who was told to (DELTALOOP_GUARD=off). */
  readonly ignoresStop?: boolean;
  /** The memory adapter needs one. Absent in production: time is then Redis TIME, one clock for all processes. */
  readonly clock?: Clock;
}

/** The part of an EpochRecord that a build brings along. */
export interface StoreIdentity {
  /** Version of projection and slice functions together. */
  readonly projection: number;
  /** `<keyId>.<form>` of the template digests. */
  readonly digestPrefix: string;
  /** The pod template layout whose hash is computed, as `v1.36`. */
  readonly hashLayout: string;
}

/** Why nothing is handed out on a primary that has taken over (SL2). */
export const OTHER_PRIMARY = "another primary serves the cache: what the last one had may be missing";

/** Why every resource is suspect once a list has shown that the cache is of another history (IX9). */
export const HISTORY_LOST = "the cluster was restored: what is cached is newer than what exists";
