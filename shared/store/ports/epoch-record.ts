/** One incarnation of the cache of one cluster. Anything that differs here makes another epoch. */
export interface EpochRecord {
  /** Random, never reused; part of every key and every message. */
  readonly epoch: string;
  readonly clusterUid: string;
  /** Version of projection and slice functions together. */
  readonly projection: number;
  /** `<keyId>.<form>` of the template digests. */
  readonly digestPrefix: string;
  /** The pod template layout whose hash is computed, as `v1.36`. */
  readonly hashLayout: string;
  /** Fence of the watcher that created the epoch. */
  readonly fence: string;
}
