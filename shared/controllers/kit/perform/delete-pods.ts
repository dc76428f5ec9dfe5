/**
 * Deletes pods: reads the owner live and registers intents before the first call, and writes all responses through together (informer §13).
 */
import { objectKey } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import { NotSentError, TerminalError, isConflict, isNotFound, isUnanswered } from "@deltaloop/kube/client";
import { deleteId } from "../expectations.ts";
import { LeaseEndsError, toError } from "../errors.ts";
import { inTurn } from "../in-turn.ts";
import type { Performed, WriteOf, WriteResult } from "../performed.ts";
import type { EventNote } from "../writes.ts";
import { storedObject } from "./calls.ts";
import type { RunCalls } from "./calls.ts";
import { isPodOf, standing } from "./live-owner.ts";

type DeletePod = WriteOf<"DeletePod">;

/**
 * Sends as many deletes at once as there are connections, without slow start; at most 500 by the decision's burst limit. A stale row costs
 * one GET and perhaps a second DELETE, a missing response one more: at most 500 GETs and 1,500 DELETEs a run.
 */
export async function deletePods(calls: RunCalls, writes: readonly DeletePod[]): Promise<Performed> {
  const [first] = writes;
  if (first === undefined) return { results: [] };
  const { run } = calls;
  const { owner, size } = first;
  const notTried = writes.map((): WriteResult => ({ kind: "notTried" }));
  const stand = standing(await calls.liveOwner(owner), size);
  if (stand.kind === "ended") return { end: stand.end, results: notTried };
  if (stand.kind === "deleting") return { results: notTried };

  if (!run.mayWrite()) throw new LeaseEndsError();
  const intents = writes.map(({ name, uid }) => ({ id: deleteId(uid), verb: "delete" as const, name, uid }));
  const untried = { lower: intents.map(({ id }) => id), plan: [] };
  await calls.register(intents, untried);
  if (!run.mayWrite()) {
    await calls.save({ resource: "pods", ...untried });
    throw new LeaseEndsError();
  }
  const begun = await inTurn(writes, run.mayWrite, (write) => deletePod(calls, write));
  const outcomes = begun.map((outcome): DeleteOutcome => outcome ?? { kind: "notSent" });
  calls.emit(
    owner,
    outcomes.flatMap((outcome, i) => deleteNotes(outcome, writes[i]?.name ?? "")),
  );
  await calls.save({
    resource: "pods",
    objects: outcomes.flatMap(standingObject),
    lower: writes.filter((_, i) => outcomes[i]?.kind !== "unanswered").map(({ uid }) => deleteId(uid)),
    plan: writes.flatMap(({ uid }, i) => (outcomes[i]?.kind === "unanswered" ? [{ id: deleteId(uid), mayLand: true }] : [])),
    gone: writes.filter((_, i) => isEnded(outcomes[i])).map(({ name, uid }) => ({ key: objectKey(owner.namespace, name), uid })),
  });
  if (outcomes.some(({ kind }) => kind === "notSent")) throw new LeaseEndsError();
  const [error] = outcomes.flatMap((outcome) => (outcome.kind === "refused" || outcome.kind === "unanswered" ? [outcome.error] : []));
  return { results: outcomes.map(deleteResult), ...(error && { error }) };
}

type DeleteOutcome =
  | { readonly kind: "deleted"; readonly object: KubeObject | undefined }
  | { readonly kind: "gone"; readonly error: Error }
  /** After a conflict, the live pod must not be deleted; `live` is that pod. */
  | { readonly kind: "skipped"; readonly error: Error; readonly live: KubeObject }
  | {
      readonly kind: "refused" | "unanswered";
      readonly error: Error;
      /** Text of the Event. */
      readonly text: string;
      /** The pod as read between the two attempts. */
      readonly live?: KubeObject;
    }
  /**
   * The delete was not sent because the lease ends too soon; emits no failure Event. `live` is the pod as read between the two attempts.
   */
  | { readonly kind: "notSent"; readonly live?: KubeObject };

type Answered = Exclude<DeleteOutcome, { readonly kind: "skipped" }> | { readonly kind: "conflict"; readonly error: Error };

/**
 * Deletes a pod; retries once if there is no response. The preconditions uid and resourceVersion let at most one of the two succeed, so a
 * success of the second call settles both. Otherwise the first call may still take effect, and the next sync deletes this pod before
 * others.
 */
async function deletePod(calls: RunCalls, write: DeletePod): Promise<DeleteOutcome> {
  const first = await tryDelete(calls, write);
  if (first.kind !== "unanswered" || !calls.run.mayWrite()) return settled(calls, write, first);
  const outcome = await settled(calls, write, await tryDelete(calls, write));
  return outcome.kind === "refused" || outcome.kind === "notSent" ? first : outcome;
}

/**
 * Handles a conflict: the row was stale or forged, or a validating webhook rejected the call with the same code. If the live pod is still
 * the owner's, the delete is repeated at its live version; a second conflict counts as a failure.
 *
 * Source: pkg/controller/controller_utils.go DeletePod (Event and error texts). Differs from upstream, which deletes by name alone.
 */
async function settled(calls: RunCalls, write: DeletePod, first: Answered): Promise<DeleteOutcome> {
  if (first.kind !== "conflict") return first;
  const { ports, run } = calls;
  const { owner, name, uid } = write;
  let live: KubeObject | undefined;
  try {
    live = await ports.reader.get("pods", owner.namespace, name);
  } catch {
    return refused(first.error); // the read failed: report the error of the delete
  }
  const reason = whyNot(live, write);
  if (live === undefined || reason !== undefined) {
    ports.log.warn("pod not deleted", { key: run.key, pod: objectKey(owner.namespace, name), reason: reason ?? "gone" });
    return live === undefined ? { kind: "gone", error: first.error } : { kind: "skipped", error: first.error, live };
  }
  if (!run.mayWrite()) return { kind: "notSent", live };
  const second = await tryDelete(calls, { owner, name, uid, resourceVersion: live.metadata.resourceVersion });
  if (second.kind === "conflict") return { ...refused(second.error), live };
  return second.kind === "deleted" || second.kind === "gone" ? second : { ...second, live };
}

async function tryDelete(
  calls: RunCalls,
  { owner, name, uid, resourceVersion }: Pick<DeletePod, "owner" | "name" | "uid" | "resourceVersion">,
): Promise<Answered> {
  try {
    const request = { resource: "pods", namespace: owner.namespace, name, preconditions: { uid, resourceVersion } } as const;
    const answer = await calls.gateway.delete(request, calls.seenRow(owner.namespace, { name, uid }));
    return { kind: "deleted", object: storedObject(answer) };
  } catch (thrown) {
    const error = toError(thrown);
    if (isNotFound(error)) return { kind: "gone", error };
    if (isConflict(error)) return { kind: "conflict", error };
    if (error instanceof NotSentError) return { kind: "notSent" };
    return isUnanswered(error) ? { ...refused(error), kind: "unanswered" } : refused(error);
  }
}

function refused(cause: Error): { readonly kind: "refused"; readonly error: Error; readonly text: string } {
  const error = cause instanceof TerminalError ? cause : new Error(`unable to delete pods: ${cause.message}`, { cause });
  return { kind: "refused", error, text: cause.message };
}

/** Returns the reason why the live pod must not be deleted; undefined if it is the chosen pod and the owner still controls it. */
function whyNot(live: KubeObject | undefined, { owner, uid }: DeletePod): string | undefined {
  if (live === undefined) return "gone";
  if (live.metadata.uid !== uid) return "another pod has its name";
  if (!isPodOf(owner, live)) return "controlled by another owner";
  return live.metadata.deletionTimestamp === undefined ? undefined : "being deleted already";
}

/** The pod to cache: from the response, or from the read between the two attempts. */
function standingObject(outcome: DeleteOutcome): readonly KubeObject[] {
  if (outcome.kind === "deleted") return isTerminatingObject(outcome.object) ? [outcome.object] : [];
  return "live" in outcome && outcome.live ? [outcome.live] : [];
}

function isEnded(outcome: DeleteOutcome | undefined): boolean {
  return outcome?.kind === "gone" || (outcome?.kind === "deleted" && !isTerminatingObject(outcome.object));
}

/** Without a deletionTimestamp the response is the last state of a deleted pod. */
function isTerminatingObject(object: KubeObject | undefined): object is KubeObject {
  return object?.metadata.deletionTimestamp !== undefined;
}

function deleteNotes(outcome: DeleteOutcome, podName: string): readonly EventNote[] {
  if (outcome.kind === "deleted") return [{ type: "Normal", reason: "SuccessfulDelete", message: `Deleted pod: ${podName}` }];
  if (outcome.kind !== "refused" && outcome.kind !== "unanswered") return [];
  return [{ type: "Warning", reason: "FailedDelete", message: `Error deleting: ${outcome.text}` }];
}

function deleteResult(outcome: DeleteOutcome): WriteResult {
  switch (outcome.kind) {
    case "deleted":
      return { kind: "deleted" };
    case "gone":
      return { kind: "gone", error: outcome.error };
    case "skipped":
      return { kind: "conflict", error: outcome.error };
    case "notSent":
      return { kind: "notTried" };
    case "refused":
    case "unanswered":
      return { kind: "failed", error: outcome.error };
    default:
      return outcome satisfies never;
  }
}
