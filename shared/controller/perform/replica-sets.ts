/** Writes on a Deployment's ReplicaSets: create, size and annotations, delete (design.md, table of writes). */
import { objectKey } from "../../api/resources.ts";
import type { ObjectKey } from "../../api/resources.ts";
import type { KubeObject } from "../../api/wire.ts";
import { isAlreadyExists, isConflict, isInvalid, isNotFound } from "../../ports/errors.ts";
import { copiedValues } from "../copied-annotations.ts";
import { LeaseEndsError, toAnswer } from "../errors.ts";
import type { PerformOptions, Performed, WriteOf, WriteResult } from "../performed.ts";
import type { Run, SyncPorts } from "../run.ts";
import { liveOwner, standing } from "./live-owner.ts";
import { runGateway, save, seenRow, storedObject } from "./calls.ts";

const resource = "replicasets";

/**
 * From the live Deployment, if it is the one the decision saw. A taken name is an answer for the caller: ours with an equal
 * template is the new ReplicaSet, anything else a hash collision.
 * @throws {Error} when the owner cannot be read.
 */
export async function createReplicaSet(
  ports: SyncPorts,
  run: Run,
  write: WriteOf<"CreateReplicaSet">,
  build: NonNullable<PerformOptions["build"]>,
): Promise<Performed> {
  const { owner, template, name, copied } = write;
  const stand = standing(await liveOwner(ports, run, owner), template, copied);
  if (stand.kind === "gone") return { end: { kind: "done" }, results: [{ kind: "notTried" }] };
  if (stand.kind === "changed") return { end: { kind: "again", afterMs: stand.afterMs }, results: [{ kind: "notTried" }] };
  if (stand.kind === "deleting") return { results: [{ kind: "notTried" }] };
  if (stand.kind === "failed") throw stand.error;
  if (!run.mayWrite()) throw new LeaseEndsError();
  try {
    const answer = await runGateway(ports, run).create({
      resource,
      namespace: owner.namespace,
      body: build(stand.live.open(), write).open(),
    });
    return outcome(await stored(ports, run, storedObject(answer), [objectKey(owner.namespace, name)]));
  } catch (thrown) {
    const error = toAnswer(thrown);
    return outcome(
      isAlreadyExists(error) ? await taken(ports, run, { namespace: owner.namespace, name, error }) : { kind: "failed", error },
    );
  }
}

async function taken(
  ports: SyncPorts,
  run: Run,
  { namespace, name, error }: { readonly namespace: string; readonly name: string; readonly error: Error },
): Promise<WriteResult> {
  const object = await ports.reader.get(resource, namespace, name);
  const [live] = object ? await save(ports, run, { resource, objects: [object] }) : [];
  return { kind: "alreadyExists", error, ...(live && { live }) };
}

/**
 * Annotations that are copied from the Deployment cost a live read of it, once per run. A Deployment that is being deleted is
 * as good as any, as upstream's still keeps them in step then.
 * @throws {Error} when the owner cannot be read.
 */
export async function patchReplicaSet(ports: SyncPorts, run: Run, write: WriteOf<"PatchReplicaSet">): Promise<Performed> {
  const { owner, name, uid, resourceVersion, replicas, minReadySeconds, copied } = write;
  const stand = copied && standing(await liveOwner(ports, run, owner), undefined, copied);
  if (stand?.kind === "gone") return { end: { kind: "done" }, results: [{ kind: "notTried" }] };
  if (stand?.kind === "changed") return { end: { kind: "again", afterMs: stand.afterMs }, results: [{ kind: "notTried" }] };
  if (stand?.kind === "failed") throw stand.error;
  if (!run.mayWrite()) throw new LeaseEndsError();
  const annotations = stand ? { ...write.annotations, ...copiedValues(stand.live.open(), copied) } : write.annotations;
  const spec = { ...(replicas !== undefined && { replicas }), ...(minReadySeconds !== undefined && { minReadySeconds }) };
  const body = { metadata: { uid, resourceVersion, ...(annotations && { annotations }) }, ...(Object.keys(spec).length > 0 && { spec }) };
  try {
    const request = { resource, namespace: owner.namespace, name, type: "application/merge-patch+json", body } as const;
    const answer = await runGateway(ports, run).patch(request, seenRow(run, owner.namespace, { name, uid }));
    return outcome(await stored(ports, run, storedObject(answer)));
  } catch (thrown) {
    const error = toAnswer(thrown);
    return outcome(
      isNotFound(error) || isConflict(error) || isInvalid(error) ? await lostRace(ports, run, write, error) : { kind: "failed", error },
    );
  }
}

/** Somebody wrote, deleted or replaced it first: what stands there now goes into the cache, so that the next decision sees it. */
async function lostRace(ports: SyncPorts, run: Run, { owner, name, uid }: WriteOf<"PatchReplicaSet">, error: Error): Promise<WriteResult> {
  const live = isNotFound(error) ? undefined : await ports.reader.get(resource, owner.namespace, name);
  if (live === undefined) {
    await save(ports, run, { resource, gone: [{ key: objectKey(owner.namespace, name), uid }] });
    return { kind: "gone", error };
  }
  await save(ports, run, { resource, objects: [live] });
  // 422 on the very object we meant is no race: the server does not like the patch.
  return isInvalid(error) && live.metadata.uid === uid ? { kind: "failed", error } : { kind: "conflict", error };
}

/** History clean-up: what is gone or has changed is skipped, no error; its own event brings the Deployment back. */
export async function deleteReplicaSet(
  ports: SyncPorts,
  run: Run,
  { owner, name, uid, resourceVersion }: WriteOf<"DeleteReplicaSet">,
): Promise<Performed> {
  if (!run.mayWrite()) throw new LeaseEndsError();
  const gone = [{ key: objectKey(owner.namespace, name), uid }];
  try {
    const request = { resource, namespace: owner.namespace, name, preconditions: { uid, resourceVersion } } as const;
    const object = storedObject(await runGateway(ports, run).delete(request, seenRow(run, owner.namespace, { name, uid })));
    // With a deletionTimestamp it waits for its finalizers; without, the answer is its last state.
    if (object?.metadata.deletionTimestamp !== undefined) await save(ports, run, { resource, objects: [object] });
    else await save(ports, run, { resource, gone });
    return outcome({ kind: "deleted" });
  } catch (thrown) {
    const error = toAnswer(thrown);
    if (isNotFound(error)) {
      await save(ports, run, { resource, gone });
      return { results: [{ kind: "gone", error }] };
    }
    return isConflict(error) ? { results: [{ kind: "conflict", error }] } : outcome({ kind: "failed", error });
  }
}

async function stored(ports: SyncPorts, run: Run, answer: KubeObject | undefined, absent: readonly ObjectKey[] = []): Promise<WriteResult> {
  const [object] = answer ? await save(ports, run, { resource, objects: [answer], absent }) : [];
  return object ? { kind: "stored", resource, object } : { kind: "failed", error: new Error("a write was answered without an object") };
}

/** `alreadyExists` is an answer; everything else that did not do what was wanted is an error as well. */
function outcome(result: WriteResult): Performed {
  return { results: [result], ...("error" in result && result.kind !== "alreadyExists" && { error: result.error }) };
}
