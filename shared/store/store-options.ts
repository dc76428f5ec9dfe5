/** Options of a Store adapter, the same for `shared/store/memory` and `shared/store/redis`. */
import type { Clock } from "@deltaloop/base";
import type { Catalog } from "@deltaloop/kube/objects";

export interface StoreOptions {
  /** Name of this installation: a shadow and a live one may watch one cluster without sharing data. */
  readonly deployment: string;
  /** Cluster id. */
  readonly cluster: string;
  /** The controllers whose keys and views are stored. Default: the built-in controllers. */
  readonly catalog?: Catalog;
  /** Data formats of this build. The gate is closed while the epoch has different formats (informer §11.6, §11.7). */
  readonly identity: StoreIdentity;
  /**
   * The Kubernetes releases that the caller supports; the gate is closed while the cluster runs another one. If absent, any release is
   * accepted.
   */
  readonly releases?: readonly string[];
  /** Maximum age of a hole in a lane before the gate closes: 2,000 on FIFO queues, 15,000 on standard queues (informer §19). */
  readonly holeLimitMs: number;
  /** GD7: set in shadow mode and by DELTALOOP_GUARD=off. */
  readonly ignoresStop?: boolean;
  /** Required by the memory adapter. Absent in production: time is Redis TIME, one clock for all processes. */
  readonly clock?: Clock;
}

/** The fields of an EpochRecord that depend on the build. */
export interface StoreIdentity {
  /** Version of `strip` and of the slice functions, which decide what is cached and where (controllers/cache/identity.ts). */
  readonly projection: number;
  /** `<keyId>.<form>` of the template digests; "" in a caller that compares none. */
  readonly digestPrefix: string;
  /** The releases whose template hashes are cached, such as `v1.35-v1.37`. */
  readonly hashLayout: string;
}

/** Why no keys are handed out after a failover to another primary (SL2). */
export const OTHER_PRIMARY = "another primary serves the cache: recent writes of the former one may be missing";

/** Why a build that does not support the cluster's release decides nothing. The same text as in scripts/lib/gate.lua. */
export function otherRelease(release: string, known: readonly string[]): string {
  return `the cluster runs Kubernetes ${release}, and this build supports only ${known.join(", ")}`;
}

/** Why every resource is suspect after a list showed that the cache has another history (IX9). */
export const HISTORY_LOST = "the cluster was restored: cached objects are newer than those of the API server";
