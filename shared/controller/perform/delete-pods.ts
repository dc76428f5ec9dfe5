/** Pod deletes: intents before the first call, one write-through for all (informer §13). */
import { objectKey } from "../../api/resources.ts";
import type { KubeObject } from "../../api/wire.ts";
import { TerminalError, isConflict, isNotFound, isUnanswered } from "../../ports/errors.ts";
import { deleteId } from "../create-plan.ts";
import { LeaseEndsError, StolenError, toError } from "../errors.ts";
import type { Performed, WriteOf, WriteResult } from "../performed.ts";
import type { Run, SyncPorts } from "../run.ts";
import type { EventNote } from "../writes.ts";
import { emitEvents, runGateway, save, seenRow, storedObject } from "./session.ts";

/** All at once, without slow start; ≤ 500 by the decision's own burst limit. */
export async function deletePods(ports: SyncPorts, run: Run, writes: readonly WriteOf<"DeletePod">[]): Promise<Performed> {
  const owner = writes[0]?.owner;
  if (owner === undefined) return { results: [] };
  if (!run.mayWrite()) throw new LeaseEndsError();
  const intents = writes.map(({ name, uid }) => ({ id: deleteId(uid), verb: "delete" as const, name, uid }));
  if ((await ports.store.registerIntents(run, owner.uid, intents)) === "stolen") throw new StolenError();
  if (!run.mayWrite()) {
    await save(ports, run, { resource: "pods", lower: intents.map(({ id }) => id) });
    throw new LeaseEndsError();
  }
  const outcomes = await Promise.all(writes.map((write) => deletePod(ports, run, write)));
  const events = emitEvents(
    ports,
    run,
    owner,
    outcomes.flatMap((outcome, i) => deleteNotes(outcome, writes[i]?.name ?? "")),
  );
  const objects = outcomes.flatMap((outcome) =>
    outcome.kind === "deleted" && isTerminatingObject(outcome.object) ? [outcome.object] : [],
  );
  const ended = writes.filter((_, i) => outcomes[i]?.kind !== "unanswered");
  const gone = writes.filter((_, i) => {
    const outcome = outcomes[i];
    return outcome?.kind === "gone" || (outcome?.kind === "deleted" && !isTerminatingObject(outcome.object));
  });
  await save(ports, run, {
    resource: "pods",
    objects,
    lower: ended.map(({ uid }) => deleteId(uid)),
    gone: gone.map(({ name, uid }) => ({ key: objectKey(owner.namespace, name), uid })),
  });
  await events;
  const [error] = outcomes.flatMap((outcome) => (outcome.kind === "refused" || outcome.kind === "unanswered" ? [outcome.error] : []));
  return { results: outcomes.map(deleteResult), ...(error && { error }) };
}

type DeleteOutcome =
  | { readonly kind: "deleted"; readonly object: KubeObject | undefined }
  | { readonly kind: "gone"; readonly error: Error }
  | { readonly kind: "refused" | "unanswered"; readonly error: Error; readonly text: string };

async function deletePod(ports: SyncPorts, run: Run, { owner, name, uid }: WriteOf<"DeletePod">): Promise<DeleteOutcome> {
  try {
    const request = { resource: "pods", namespace: owner.namespace, name, preconditions: { uid } } as const;
    const answer = await runGateway(ports, run).delete(request, seenRow(run, owner.namespace, { name, uid }));
    return { kind: "deleted", object: storedObject(answer) };
  } catch (thrown) {
    const cause = toError(thrown);
    if (isNotFound(cause) || isConflict(cause)) return { kind: "gone", error: cause };
    const error = cause instanceof TerminalError ? cause : new Error(`unable to delete pods: ${cause.message}`, { cause });
    return { kind: isUnanswered(cause) ? "unanswered" : "refused", error, text: cause.message };
  }
}

/** Without a deletionTimestamp the answer is the last state of what is already gone. */
function isTerminatingObject(object: KubeObject | undefined): object is KubeObject {
  return object?.metadata.deletionTimestamp !== undefined;
}

function deleteNotes(outcome: DeleteOutcome, podName: string): readonly EventNote[] {
  if (outcome.kind === "deleted") return [{ type: "Normal", reason: "SuccessfulDelete", message: `Deleted pod: ${podName}` }];
  if (outcome.kind === "gone") return [];
  return [{ type: "Warning", reason: "FailedDelete", message: `Error deleting: ${outcome.text}` }];
}

function deleteResult(outcome: DeleteOutcome): WriteResult {
  if (outcome.kind === "gone") return outcome;
  return outcome.kind === "deleted" ? { kind: "deleted" } : { kind: "failed", error: outcome.error };
}
