/**
 * Q2, the doorbells: SQS standard queues, one per controller.
 *
 * DB1 a doorbell may be lost, repeated, reordered or late. It carries a key and means "look"; the truth is in the Store.
 * DB2 it is not delivered before its delay, which is at most 900 s; less than a second may be no delay at all, and the worker
 *    waits out the rest (informer §12.3).
 * DB3 one with a delay above RUNG_WITHIN_MS may be left out: the sweeper rings what is overdue.
 * DB4 `ring` fails as a whole or not at all as far as the caller can tell; a failure loses nothing, because the sweeper
 *    rings what stays dirty.
 */
import type { OwnerId, Controller, ObjectKey } from "@deltaloop/kube/objects";

export interface Doorbells {
  ring(bells: readonly Doorbell[]): Promise<void>;
  /**
   * Their keys will be due if the step that has just left for the Store is done as it was asked, so whoever looks at keys here may ask
   * right behind it. Answers how the bells of that step's own answer are to be rung. Absent: nobody looks at keys here.
   */
  expect?(bells: readonly Doorbell[]): Pick<Doorbells, "ring">;
}

export interface Doorbell {
  readonly controller: Controller;
  readonly key: ObjectKey;
  /** uid of the primary and its controller owner as far as the Store knows them: they name what `take` reads. */
  readonly uid?: string;
  readonly owner?: OwnerId;
  readonly epoch: string;
  /** 0 = now. Delays above 900 s are cut: the worker finds NOTYET and rings the rest. */
  readonly delayMs: number;
}

/** What stands in a doorbell message: `{v, c, ctl, e, k, u, o}` (informer §12.3). */
export interface DoorbellMessage {
  readonly v: 1;
  /** Cluster id. */
  readonly c: string;
  readonly ctl: Controller;
  readonly e: string;
  readonly k: ObjectKey;
  readonly u?: string;
  readonly o?: string;
}
