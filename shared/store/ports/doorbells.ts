/**
 * The doorbell queues: SQS standard queues, one per controller.
 *
 * DB1 a doorbell may be lost, repeated, reordered or late. It only carries a key to check; the state is in the Store.
 * DB2 it is not delivered before its delay, which is at most 900 s. A delay under a second may be dropped, and the worker waits
 *    (informer §12.3).
 * DB3 a doorbell with a delay above RUNG_WITHIN_MS may not be sent at all: the sweeper rings the key once it is overdue.
 * DB4 a failure of `ring` does not say which doorbells were sent. It loses nothing, because the sweeper rings keys that stay dirty.
 */
import type { OwnerId, ControllerName, ObjectKey } from "@deltaloop/kube/objects";

export interface Doorbells {
  ring(bells: readonly Doorbell[]): Promise<void>;
  /**
   * Announces keys that a Store call in flight is expected to make due, so that this process may take them right after it. The result rings
   * the doorbells of that call's response. Absent if the process has no worker for follow-up syncs.
   */
  expect?(bells: readonly Doorbell[]): Pick<Doorbells, "ring">;
}

export interface Doorbell {
  readonly controller: ControllerName;
  readonly key: ObjectKey;
  /** uid of the primary and its controller owner, as far as the Store knows them; `take` selects rows by these values. */
  readonly uid?: string;
  readonly owner?: OwnerId;
  readonly epoch: string;
  /** 0 means now. Delays above 900 s are capped: `take` then returns `notYet`, and the worker sends the doorbell again. */
  readonly delayMs: number;
}

/** Content of a doorbell message: `{v, c, ctl, e, k, u, o}` (informer §12.3), and `m` where one queue serves several clusters. */
export interface DoorbellMessage {
  readonly v: 1;
  /** Cluster id. */
  readonly c: string;
  readonly ctl: ControllerName;
  readonly e: string;
  readonly k: ObjectKey;
  readonly u?: string;
  readonly o?: string;
  /** MAC of the other fields under the cluster's key. */
  readonly m?: string;
}

/** The signed texts of a doorbell, in the domain `d`. */
export function doorbellParts({
  c,
  ctl,
  e,
  k,
  u = "",
  o = "",
}: Omit<DoorbellMessage, "m" | "v" | "ctl"> & { readonly ctl: string }): readonly string[] {
  return [c, ctl, e, k, u, o];
}
