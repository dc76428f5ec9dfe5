/** What became of the items that came to each lane (informer §16): counted in the step that decides it, outside epochs, decided on by nobody. */
import type { CachedResource } from "@deltaloop/kube/objects";

/**
 * `applied` A7, A9 and what a manifest swept · `superseded` A4, A5, A6, A8 · `duplicate` A3 · `fenced` A2 · `otherEpoch` A1 ·
 * `quarantined`: it cannot be applied · `dead`: of a message that was given up.
 */
export const FATES = ["applied", "superseded", "duplicate", "fenced", "otherEpoch", "quarantined", "dead"] as const;
export type Fate = (typeof FATES)[number];

export interface LaneTally {
  /** `unknown`: of messages that do not say it, which count as one item. */
  readonly resource: CachedResource | "unknown";
  readonly lane: number;
  /** How many items have come to an end here; each in exactly one way, so it is the sum of `fates`. */
  readonly received: number;
  readonly fates: { readonly [F in Fate]: number };
}

/** Items that come to an end outside of `applyPack` and `applyManifest`. */
export interface Ended {
  readonly resource?: CachedResource;
  readonly lane?: number;
  readonly fate: "quarantined" | "dead";
  readonly items: number;
}

export interface TallyStore {
  /** Lanes to which something came, in the order of resource and lane. */
  tallies(): Promise<readonly LaneTally[]>;
}
