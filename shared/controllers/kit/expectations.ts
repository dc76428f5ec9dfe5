/**
 * Expectations. Here they are intents (shared/store/ports/intents.ts): the Store records each create and delete before its call.
 * The response, the watch or a live read settles it. This file names the pods of a batch of creates (informer §13 layer 4).
 */
import type { Intent, Snapshot } from "@deltaloop/store/ports";
import { podNames } from "./pod-names.ts";

export interface CreateOp {
  readonly id: string;
  readonly name: string;
  /** Time until which an earlier call with this name, which got no response, may still take effect. */
  readonly mayLandUntilMs?: number;
  /** Number of the name (IT5). Absent if an earlier run planned the name. */
  readonly index?: number;
}

export interface CreatePlan {
  readonly ops: readonly CreateOp[];
  /**
   * Planned names that are no longer needed, because their pod is in the snapshot or each create with the name got a response. They are
   * registered with the other names, so that this run owns them, and removed with its first responses.
   */
  readonly drop: readonly CreateOp[];
  /** Number of names drawn for the owner, these included. */
  readonly drawn: number;
}

interface WantedCreates {
  readonly ownerName: string;
  readonly ownerUid: string;
  readonly epoch: string;
  readonly count: number;
  /** Number of names drawn for the owner so far. */
  readonly drawn: number;
}

/**
 * Plans `count` creates. Planned names come first, so that a POST of an earlier run that got no response is repeated under the same name. A
 * planned name whose pod is in the snapshot is dropped. Another planned name that is not needed now is dropped only if all its calls got
 * responses. Otherwise its pod may exist without the cache showing it, and a later create must use that name again to find it.
 */
export function planCreates(snapshot: Snapshot, { ownerName, ownerUid, epoch, count, drawn }: WantedCreates): CreatePlan {
  const shown = new Set([...snapshot.dependents, ...snapshot.orphans].map((row) => row.key.slice(row.key.indexOf("/") + 1)));
  const creates = snapshot.intents.filter((intent) => intent.verb === "create");
  const planned = creates.filter((intent) => intent.state === "planned");
  const free = planned.filter((intent) => !shown.has(intent.name));
  const used = free.slice(0, count);
  const taken = new Set([...shown, ...creates.map((intent) => intent.name)]);
  const { names, nextIndex } = podNames(ownerName, { ownerUid, epoch }, { count: count - used.length, firstIndex: drawn, taken });
  return {
    ops: [...used.map(opOf), ...names.map(({ name, index }) => ({ id: createId(name), name, index }))],
    drop: [...planned.filter((intent) => shown.has(intent.name)), ...free.slice(count).filter((intent) => !wasUnanswered(intent))].map(
      opOf,
    ),
    drawn: nextIndex,
  };
}

/** Whether a call with this name may still take effect; the name must then be kept. */
export function mayLand(op: Pick<Intent, "mayLandUntilMs">, nowMs: number): boolean {
  return op.mayLandUntilMs !== undefined && op.mayLandUntilMs > nowMs;
}

/** Whether a call with this name was sent and got no response: its pod may exist. */
export function wasUnanswered(op: Pick<Intent, "mayLandUntilMs">): boolean {
  return op.mayLandUntilMs !== undefined;
}

function createId(podName: string): string {
  return `c:${podName}`;
}

export function deleteId(podUid: string): string {
  return `d:${podUid}`;
}

function opOf({ id, name, mayLandUntilMs }: Intent): CreateOp {
  return mayLandUntilMs === undefined ? { id, name } : { id, name, mayLandUntilMs };
}
