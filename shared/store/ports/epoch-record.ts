/** One incarnation of a cluster's cache. A difference in any identity field needs a new epoch. */
export interface EpochRecord {
  /** Random, never reused; part of every key and every message. */
  readonly epoch: string;
  readonly clusterUid: string;
  /** Common version of the projection and slice functions. */
  readonly projection: number;
  /** `<keyId>.<form>` of the template digests. */
  readonly digestPrefix: string;
  /** The releases whose template hashes are cached, as `v1.35-v1.37`. */
  readonly hashLayout: string;
  /** Fence of the watcher that created the epoch. */
  readonly fence: string;
  /**
   * The release that the cluster runs, as `1.36`. Published by the watcher; not part of the identity, because an upgrade changes it in
   * place.
   */
  readonly release?: string;
  /** Number of lanes with which each resource begins, at most LANES (LG1). Absent: LANES, also in an epoch of an older build. */
  readonly lanes?: number;
}
