/**
 * Expectations. This project's expectations are intents (shared/store/ports/intents.ts): each create and delete is registered in the Store
 * before its call, and settled by its response, the watch or a live read. This file chooses the names of a batch of creates from them
 * (informer §13 layer 4).
 */
import type { Intent, Snapshot } from "@deltaloop/store/ports";
import { podNames } from "./pod-names.ts";

export interface CreateOp {
  readonly id: string;
  readonly name: string;
  /** An earlier, unanswered call with this name may still land until then. */
  readonly mayLandUntilMs?: number;
}

export interface CreatePlan {
  readonly ops: readonly CreateOp[];
  /**
   * Planned names that are not wanted any more: their pod is in the snapshot, or a live read has found that it was never made.
   * Registered with the others, so that they are this run's own, and lowered with its first answers.
   */
  readonly drop: readonly CreateOp[];
  /** Where the next plan of this run goes on numbering. */
  readonly nextIndex: number;
}

interface WantedCreates {
  readonly ownerName: string;
  readonly ownerUid: string;
  readonly token: string;
  readonly count: number;
  /** Where an earlier plan of this run stopped numbering. */
  readonly firstIndex: number;
}

/**
 * `count` creates, planned names first: an unanswered POST of an earlier run is thereby repeated under its own name. A planned
 * name that the snapshot shows is dropped, not called. One that is not needed is dropped only if its calls are known to have
 * made nothing: otherwise its pod may exist, unseen while the stream stands still, and the next create must come upon it.
 */
export function planCreates(snapshot: Snapshot, { ownerName, ownerUid, token, count, firstIndex }: WantedCreates): CreatePlan {
  const shown = new Set([...snapshot.dependents, ...snapshot.orphans].map((row) => row.key.slice(row.key.indexOf("/") + 1)));
  const creates = snapshot.intents.filter((intent) => intent.verb === "create");
  const planned = creates.filter((intent) => intent.state === "planned");
  const free = planned.filter((intent) => !shown.has(intent.name));
  const used = free.slice(0, count);
  const taken = new Set([...shown, ...creates.map((intent) => intent.name)]);
  const { names, nextIndex } = podNames(ownerName, { ownerUid, intent: token }, { count: count - used.length, firstIndex, taken });
  return {
    ops: [...used.map(opOf), ...names.map((name) => ({ id: createId(name), name }))],
    drop: [...planned.filter((intent) => shown.has(intent.name)), ...free.slice(count).filter((intent) => !wasUnanswered(intent))].map(
      opOf,
    ),
    nextIndex,
  };
}

/** Whether a call with this name may still be executed: then the name must not be given up. */
export function mayLand(op: Pick<Intent, "mayLandUntilMs">, nowMs: number): boolean {
  return op.mayLandUntilMs !== undefined && op.mayLandUntilMs > nowMs;
}

/** Whether a call with this name was ever sent and not answered: its pod may exist, also if no call can land any more. */
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
