/** Fates of the items of each lane (informer §16), counted in the deciding step, outside epochs. No decision uses them. */
import type { View } from "@deltaloop/kube/objects";

/**
 * `applied` A7, A9 and swept by a manifest · `superseded` A4, A5, A6, A8 · `duplicate` A3 · `fenced` A2 · `otherEpoch` A1 ·
 * `quarantined`: cannot be applied · `dead`: in a message that was dead-lettered.
 */
export const FATES = ["applied", "superseded", "duplicate", "fenced", "otherEpoch", "quarantined", "dead"] as const;
export type Fate = (typeof FATES)[number];

export interface LaneTally {
  /** `unknown`: messages whose resource cannot be read; each such message counts as one item. */
  readonly resource: View | "unknown";
  readonly lane: number;
  /** Number of ended items; each has exactly one fate, so it is the sum of `fates`. */
  readonly received: number;
  readonly fates: { readonly [F in Fate]: number };
}

/** Quarantined or dead-lettered items, which `applyPack` and `applyManifest` do not count. */
export interface Ended {
  readonly resource?: View;
  readonly lane?: number;
  readonly fate: "quarantined" | "dead";
  readonly items: number;
}

export interface TallyStore {
  /** Lanes with items, in the order of resource and lane. */
  tallies(): Promise<readonly LaneTally[]>;
}
