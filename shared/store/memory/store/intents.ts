/**
 * Intents: calls for an owner that were, may be or will be sent (informer §13 layers 1 and 4).
 *
 * A worker changes only ops with its own token, and a recovering run takes over the expired ops (IT1). They are stored under the owner and
 * removed with it (IT4).
 */
import { deepFreeze, EXPECTATION_MS, MAY_LAND_MS, OP_DEADLINE_MS } from "@deltaloop/base";
import type { OwnerId, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Intent, AnyTaken, WriteThrough } from "../../ports/store.ts";
import { addTo, removeFrom } from "./data.ts";
import type { EpochData, StoredIntent } from "./data.ts";

export function intentsOf(epoch: EpochData, owner: OwnerId): readonly Intent[] {
  return [...stored(epoch, owner)].map(({ intent }) => intent).sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Deadline of the first pending op; undefined if there is none. */
export function pendingDeadlineMs(epoch: EpochData, owner: OwnerId): number | undefined {
  let earliestMs: number | undefined;
  for (const { intent } of stored(epoch, owner)) {
    if (intent.state === "pending") earliestMs = Math.min(earliestMs ?? intent.deadlineMs, intent.deadlineMs);
  }
  return earliestMs;
}

/** Assigns the expired pending ops to `run`, so that the former run can no longer settle them, and returns them. */
export function adoptExpired(epoch: EpochData, owner: OwnerId, run: AnyTaken, nowMs: number): readonly Intent[] {
  const expired = [...stored(epoch, owner)].filter(({ intent }) => intent.state === "pending" && intent.deadlineMs <= nowMs);
  for (const op of expired) put(epoch, owner, { ...op, intent: { ...op.intent, token: run.token } });
  return intentsOf(epoch, owner).filter(({ id }) => expired.some((op) => op.intent.id === id));
}

export function register(
  epoch: EpochData,
  owner: OwnerId,
  run: AnyTaken,
  intents: readonly Pick<Intent, "id" | "verb" | "name" | "uid" | "mayLandUntilMs">[],
  nowMs: number,
): void {
  for (const { id, verb, name, uid, mayLandUntilMs } of intents) {
    const intent: Intent = {
      id,
      verb,
      name,
      ...(uid !== undefined && { uid }),
      state: "pending",
      token: run.token,
      deadlineMs: nowMs + OP_DEADLINE_MS,
      ...(mayLandUntilMs !== undefined && { mayLandUntilMs }),
    };
    put(epoch, owner, { intent, controller: run.controller, key: run.key });
  }
  restamp(epoch, owner, run.token, nowMs);
}

/** Settles the run's own ops. An op that no longer exists is not planned again: the stream has settled it, because its pod exists. */
export function settle(epoch: EpochData, owner: OwnerId, run: AnyTaken, write: WriteThrough, nowMs: number): void {
  for (const id of write.lower) {
    if (own(epoch, owner, run.token, id)) removeFrom(epoch.intents, owner, id);
  }
  for (const id of write.hold ?? []) {
    const op = own(epoch, owner, run.token, id);
    if (op?.intent.state === "pending") put(epoch, owner, { ...op, intent: { ...op.intent, deadlineMs: nowMs + EXPECTATION_MS } });
  }
  for (const { id, mayLand } of write.plan) {
    const op = own(epoch, owner, run.token, id);
    if (!op) continue;
    put(epoch, owner, {
      ...op,
      intent: { ...op.intent, state: "planned", ...(mayLand && { mayLandUntilMs: nowMs + MAY_LAND_MS }) },
    });
  }
}

/** Restarts the deadlines of the run's ops, because the batches of a run are sent one after another. */
export function restamp(epoch: EpochData, owner: OwnerId, token: string, nowMs: number): void {
  for (const op of [...stored(epoch, owner)]) {
    if (op.intent.token === token && op.intent.state === "pending") {
      put(epoch, owner, { ...op, intent: { ...op.intent, deadlineMs: Math.max(op.intent.deadlineMs, nowMs + OP_DEADLINE_MS) } });
    }
  }
}

/** IT2: settles an op by name or uid, regardless of the run that registered it. @returns the key of that run, if the op existed */
export function lowerOp(
  epoch: EpochData,
  owner: OwnerId,
  id: string,
): { readonly controller: ControllerName; readonly key: ObjectKey } | undefined {
  const op = epoch.intents.get(owner)?.get(id);
  if (op) removeFrom(epoch.intents, owner, id);
  return op;
}

function own(epoch: EpochData, owner: OwnerId, token: string, id: string): StoredIntent | undefined {
  const op = epoch.intents.get(owner)?.get(id);
  return op?.intent.token === token ? op : undefined;
}

function put(epoch: EpochData, owner: OwnerId, op: StoredIntent): void {
  addTo(epoch.intents, owner, op.intent.id, deepFreeze(op));
}

function stored(epoch: EpochData, owner: OwnerId): Iterable<StoredIntent> {
  return epoch.intents.get(owner)?.values() ?? [];
}
