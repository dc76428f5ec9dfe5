/** Writes on a Deployment's ReplicaSets: create, size and annotations, delete (design.md, table of writes). */
import { objectKey } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import { isAlreadyExists, isConflict, isInvalid, isNotFound } from "@deltaloop/kube/client";
import { copiedValues } from "../copied-annotations.ts";
import { LeaseEndsError, toAnswer } from "../errors.ts";
import type { BuildReplicaSet, Performed, WriteOf, WriteResult } from "../performed.ts";
import { storedObject } from "./calls.ts";
import type { AnswersOf, RunCalls } from "./calls.ts";
import { standing } from "./live-owner.ts";

const resource = "replicasets";

/**
 * Creates a ReplicaSet from the live Deployment, if that is unchanged since the decision. A taken name is a result, not an error: the
 * Deployment's own ReplicaSet with an equal template is the new one, any other object a hash collision.
 * @throws {Error} when the owner cannot be read.
 */
export async function createReplicaSet(calls: RunCalls, write: WriteOf<"CreateReplicaSet">, build: BuildReplicaSet): Promise<Performed> {
  const { owner, template, name, copied } = write;
  const stand = standing(await calls.liveOwner(owner), template, copied);
  if (stand.kind === "ended") return { end: stand.end, results: [{ kind: "notTried" }] };
  if (stand.kind === "deleting") return { results: [{ kind: "notTried" }] };
  if (!calls.run.mayWrite()) throw new LeaseEndsError();
  const sentMs = calls.ports.clock.now();
  try {
    const answer = await calls.gateway.create({
      resource,
      namespace: owner.namespace,
      body: build(stand.live.open(), write).open(),
    });
    const object = storedObject(answer);
    const absent = [objectKey(owner.namespace, name)];
    return outcome(await stored(calls, object, sentMs, { absent, ...(object && { marks: createdMarks(calls, object) }) }));
  } catch (thrown) {
    const error = toAnswer(thrown);
    return outcome(isAlreadyExists(error) ? await taken(calls, { namespace: owner.namespace, name, error }) : { kind: "failed", error });
  }
}

async function taken(
  calls: RunCalls,
  { namespace, name, error }: { readonly namespace: string; readonly name: string; readonly error: Error },
): Promise<WriteResult> {
  const object = await calls.ports.reader.get(resource, namespace, name);
  const [live] = object ? await calls.save({ resource, objects: [object] }) : [];
  return { kind: "alreadyExists", error, ...(live && { live }) };
}

/**
 * Annotations copied from the Deployment need a live read of it, once per run. A Deployment that is being deleted is accepted, because
 * upstream still copies them then.
 * @throws {Error} when the owner cannot be read.
 */
export async function patchReplicaSet(calls: RunCalls, write: WriteOf<"PatchReplicaSet">): Promise<Performed> {
  const { owner, name, uid, resourceVersion, replicas, minReadySeconds, copied } = write;
  const stand = copied && standing(await calls.liveOwner(owner), undefined, copied);
  if (stand?.kind === "ended") return { end: stand.end, results: [{ kind: "notTried" }] };
  if (!calls.run.mayWrite()) throw new LeaseEndsError();
  const annotations = stand ? { ...write.annotations, ...copiedValues(stand.live.open(), copied) } : write.annotations;
  const spec = { ...(replicas !== undefined && { replicas }), ...(minReadySeconds !== undefined && { minReadySeconds }) };
  calls.forget(uid);
  const sentMs = calls.ports.clock.now();
  const body = { metadata: { uid, resourceVersion, ...(annotations && { annotations }) }, ...(Object.keys(spec).length > 0 && { spec }) };
  try {
    const request = { resource, namespace: owner.namespace, name, type: "application/merge-patch+json", body } as const;
    const answer = await calls.gateway.patch(request, calls.seenRow(owner.namespace, { name, uid }));
    return outcome(await stored(calls, storedObject(answer), sentMs));
  } catch (thrown) {
    const error = toAnswer(thrown);
    return outcome(
      isNotFound(error) || isConflict(error) || isInvalid(error) ? await lostRace(calls, write, error) : { kind: "failed", error },
    );
  }
}

/** Handles an object that another client changed, deleted or replaced first: writes the current object through for the next decision. */
async function lostRace(calls: RunCalls, { owner, name, uid }: WriteOf<"PatchReplicaSet">, error: Error): Promise<WriteResult> {
  const live = isNotFound(error) ? undefined : await calls.ports.reader.get(resource, owner.namespace, name);
  if (live === undefined) {
    await calls.save({ resource, gone: [{ key: objectKey(owner.namespace, name), uid }] });
    return { kind: "gone", error };
  }
  await calls.save({ resource, objects: [live] });
  // A 422 for the same uid is not a lost race: the API server rejects the patch itself.
  return isInvalid(error) && live.metadata.uid === uid ? { kind: "failed", error } : { kind: "conflict", error };
}

/** History clean-up: skips a deleted or changed ReplicaSet without an error; its event enqueues the Deployment. */
export async function deleteReplicaSet(
  calls: RunCalls,
  { owner, name, uid, resourceVersion }: WriteOf<"DeleteReplicaSet">,
): Promise<Performed> {
  if (!calls.run.mayWrite()) throw new LeaseEndsError();
  const gone = [{ key: objectKey(owner.namespace, name), uid }];
  calls.forget(uid);
  try {
    const request = { resource, namespace: owner.namespace, name, preconditions: { uid, resourceVersion } } as const;
    const object = storedObject(await calls.gateway.delete(request, calls.seenRow(owner.namespace, { name, uid })));
    // With a deletionTimestamp the ReplicaSet waits for its finalizers; without, the response is its last state.
    if (object?.metadata.deletionTimestamp !== undefined) await calls.save({ resource, objects: [object] });
    else await calls.save({ resource, gone });
    return outcome({ kind: "deleted" });
  } catch (thrown) {
    const error = toAnswer(thrown);
    if (isNotFound(error)) {
      await calls.save({ resource, gone });
      return { results: [{ kind: "gone", error }] };
    }
    return isConflict(error) ? { results: [{ kind: "conflict", error }] } : outcome({ kind: "failed", error });
  }
}

/** A new ReplicaSet has no pods: its first creates need no list (replicaset §18). */
function createdMarks({ run: { snapshot } }: RunCalls, { metadata }: KubeObject): NonNullable<AnswersOf<typeof resource>["marks"]> {
  const { pods } = snapshot;
  if (pods === undefined) return [];
  const mark = { kind: "created", fence: pods.fence, suspects: pods.suspects, version: metadata.resourceVersion, atMs: pods.atMs } as const;
  return [{ controller: "replicaset", key: objectKey(metadata.namespace ?? "", metadata.name), uid: metadata.uid, mark }];
}

/** The response is remembered before it is written through, because the write-through enqueues the key. */
async function stored(
  calls: RunCalls,
  answer: KubeObject | undefined,
  sentMs: number,
  more: Pick<AnswersOf<typeof resource>, "absent" | "marks"> = {},
): Promise<WriteResult> {
  if (answer) calls.remember(answer, sentMs);
  const [object] = answer ? await calls.save({ resource, objects: [answer], ...more }) : [];
  return object ? { kind: "stored", resource, object } : { kind: "failed", error: new Error("the response to a write has no object") };
}

/** `alreadyExists` is a result; every other failed write is an error. */
function outcome(result: WriteResult): Performed {
  return { results: [result], ...("error" in result && result.kind !== "alreadyExists" && { error: result.error }) };
}
