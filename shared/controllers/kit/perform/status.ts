/** Status writes: a merge patch on /status of the object that the decision read, and the reaction to a conflict. */
import type { Cached, KubeObject } from "@deltaloop/kube/objects";
import { strip } from "@deltaloop/kube/strip";
import { TerminalError, isConflict, isInvalid, isNotFound } from "@deltaloop/kube/client";
import type { PatchRequest } from "@deltaloop/kube/client";
import { LeaseEndsError, toAnswer } from "../errors.ts";
import type { Performed, StatusOptions, StoredResult, WriteOf } from "../performed.ts";
import type { Run, Succeeded } from "../run.ts";
import type { Owner } from "../writes.ts";
import { storedObject } from "./calls.ts";
import type { RunCalls } from "./calls.ts";

type UpdateStatus = WriteOf<"UpdateStatus">;

/**
 * Writes the status. ReplicaSets and ReplicationControllers: after a failure one live read. If the generation is unchanged, the status is
 * recomputed from that read and written again; otherwise the object is written through and the sync fails. Deployments: every failure is an
 * error, and a conflict first writes the live object through. Write-through requeues the key at once if the cache was behind. Otherwise the
 * key backs off, so that a permanent conflict, such as a webhook's, is not retried in a tight loop. If the object is gone or has another
 * uid, the sync is done.
 *
 * Source: pkg/controller/replicaset/replica_set_utils.go updateReplicaSetStatus. Differs from upstream, which repeats the status computed
 * before (this may undo a condition that another client has set) and does not compare the uid.
 */
export async function updateStatus(calls: RunCalls, write: UpdateStatus, { recompute, finalResult }: StatusOptions): Promise<Performed> {
  const first = await patchStatus(calls, write, finalResult);
  if (!(first instanceof Error)) return first;
  if (isNotFound(first)) return ended;
  const canRepeat = write.owner.resource !== "deployments" && recompute !== undefined;
  if (first instanceof TerminalError || !(canRepeat || isConflict(first) || isInvalid(first))) return failed(first);

  const { resource, namespace, name, uid } = write.owner;
  const live = await calls.ports.reader.get(resource, namespace, name);
  if (live === undefined || live.metadata.uid !== uid) return ended;
  const cached: Cached = strip(resource, live, calls.ports.digester);
  if (!canRepeat || (cached.metadata.generation ?? 0) !== generationOf(calls.run)) {
    await calls.save({ resource, objects: [live] });
    return isInvalid(first) ? failed(first) : { results: [{ kind: "conflict", error: first }], error: first };
  }
  const repeated = recompute(cached);
  if (repeated === undefined) return saveStored(calls, resource, live, { ownStatus: false });
  const second = await patchStatus(calls, repeated, finalResult);
  return second instanceof Error ? failed(second) : second;
}

const ended: Performed = { end: { kind: "done" }, results: [{ kind: "notTried" }] };

function failed(error: Error): Performed {
  return { results: [{ kind: "failed", error }], error };
}

function generationOf({ snapshot }: Run): number {
  const { object } = snapshot.primary ?? {};
  return (object && "metadata" in object ? object.metadata.generation : undefined) ?? 0;
}

/** Returns the error of a rejected call: whether to retry is the caller's decision. */
async function patchStatus(calls: RunCalls, write: UpdateStatus, finalResult: StatusOptions["finalResult"]): Promise<Performed | Error> {
  if (!calls.run.mayWrite()) throw new LeaseEndsError();
  let object: KubeObject | undefined;
  try {
    object = storedObject(await calls.gateway.patch(statusPatch(write)));
  } catch (error) {
    return toAnswer(error);
  }
  if (object === undefined) return new Error("the response to a patch has no object");
  return saveStored(calls, write.owner.resource, object, { ownStatus: true, ...(finalResult && { finalResult }) });
}

async function saveStored(
  calls: RunCalls,
  resource: Owner["resource"],
  object: KubeObject,
  { ownStatus, finalResult }: { readonly ownStatus: boolean; readonly finalResult?: NonNullable<StatusOptions["finalResult"]> },
): Promise<Performed> {
  const ends = finalResult && { finalResult: ([stored]: readonly Cached[]): Succeeded => finalResult(stored as Cached) }; // one object was stored
  const [cached] = await calls.save({ resource, objects: [object], ownStatus, ...ends });
  return { results: [{ kind: "stored", resource, object: cached } as StoredResult] }; // `save` returns objects of the given resource
}

/**
 * The patch contains every field that the status manages, so that no older value survives: `null` removes a field or an empty list of
 * conditions.
 */
export function statusPatch({ owner, resourceVersion, status, absent, annotations }: UpdateStatus): PatchRequest {
  const { conditions = [], ...counters } = status;
  return {
    resource: owner.resource,
    namespace: owner.namespace,
    name: owner.name,
    subresource: "status",
    type: "application/merge-patch+json",
    body: {
      metadata: { uid: owner.uid, resourceVersion, ...(annotations && { annotations }) },
      status: {
        ...counters,
        ...Object.fromEntries(absent.map((field) => [field, null])),
        conditions: conditions.length > 0 ? conditions : null,
      },
    },
  };
}
