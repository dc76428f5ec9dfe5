import type { CachedResource } from "@deltaloop/kube/objects";
import type { Recording, SeenOwner } from "@deltaloop/replay/explain";
import type { Change, Kind, PodStep, SizeStep } from "@deltaloop/timeline/input";

/** One object, from its first to its last record. Times are after the first record of the capture. */
export interface Life {
  readonly resource: CachedResource | "nodes" | "resourcequotas";
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  owner: string | undefined;
  readonly from: number;
  until?: number;
  revision?: number | undefined;
  images?: readonly string[];
  node?: string | undefined;
  readonly states: PodStep[];
  readonly sizes: SizeStep[];
  readonly restarts: number[];
  restartCount: number;
  readonly changes: Change[];
  last?: Recording;
  seen?: SeenOwner;
}
