/** The only write to a Deployment itself: a merge patch that ends a rollback request (deployment §15). */
import { objectKey } from "@deltaloop/kube/objects";
import { strip } from "@deltaloop/kube/strip";
import type { KubeObject } from "@deltaloop/kube/objects";
import { isConflict, isInvalid, isNotFound } from "@deltaloop/kube/client";
import { LeaseEndsError, toAnswer } from "../errors.ts";
import type { BuildRollback, Performed, StoredResult, WriteOf } from "../performed.ts";
import { storedObject } from "./calls.ts";
import type { RunCalls } from "./calls.ts";
import { standing } from "./live-owner.ts";

type RollBack = WriteOf<"RollBack">;

/**
 * Reads the owner and the target ReplicaSet live, because the cache holds no template. If one changed since the decision, it is written
 * through, and the sync fails or runs again. The patch requires the version of the decision; after a conflict the live object is written
 * through and the sync fails.
 * @throws {Error} if the owner or the ReplicaSet cannot be read
 */
export async function rollBack(calls: RunCalls, write: RollBack, build: BuildRollback): Promise<Performed> {
  const { owner, template, to, request } = write;
  const stand = standing(await calls.liveOwner(owner), template);
  if (stand.kind === "ended") return { end: stand.end, results: [{ kind: "notTried" }] };
  if (stand.kind === "deleting") return { results: [{ kind: "notTried" }] };
  const { annotations = {} } = stand.live.open().metadata;
  if (Object.keys(request).some((key) => annotations[key] !== request[key]))
    return conflict(new Error("the Deployment no longer requests this rollback"));
  const target = to && (await liveTarget(calls, owner.namespace, to));
  if (target instanceof Error) return conflict(target);
  if (!calls.run.mayWrite()) throw new LeaseEndsError();
  try {
    const body = build(stand.live.open(), target, write).open();
    const { resource, namespace, name } = owner;
    const answer = await calls.gateway.patch({ resource, namespace, name, type: "application/merge-patch+json", body });
    return await stored(calls, write, storedObject(answer));
  } catch (thrown) {
    return refused(calls, write, toAnswer(thrown));
  }
}

/** The target if it is unchanged since the decision, otherwise the error. */
async function liveTarget(
  calls: RunCalls,
  namespace: string,
  { name, uid, digest }: NonNullable<RollBack["to"]>,
): Promise<KubeObject | Error> {
  const resource = "replicasets";
  const live = await calls.ports.reader.get(resource, namespace, name);
  const isMeant = live?.metadata.uid === uid && strip(resource, live, calls.ports.digester).spec.template?.digest === digest;
  if (live !== undefined && isMeant) return live;
  await calls.save(live === undefined ? { resource, gone: [{ key: objectKey(namespace, name), uid }] } : { resource, objects: [live] });
  return new Error(`ReplicaSet ${name} was changed or deleted since the rollback was decided`);
}

async function stored(calls: RunCalls, { owner: { resource } }: RollBack, object: KubeObject | undefined): Promise<Performed> {
  if (object === undefined) throw new Error("the response to a patch has no object");
  const [cached] = await calls.save({ resource, objects: [object] });
  return { results: [{ kind: "stored", resource, object: cached } as StoredResult] }; // `save` returns objects of the given resource
}

async function refused(calls: RunCalls, { owner: { resource, namespace, name, uid } }: RollBack, error: Error): Promise<Performed> {
  const failed: Performed = { results: [{ kind: "failed", error }], error };
  if (isNotFound(error)) return ended;
  if (!isConflict(error) && !isInvalid(error)) return failed;
  const live = await calls.ports.reader.get(resource, namespace, name);
  if (live === undefined || live.metadata.uid !== uid) return ended;
  await calls.save({ resource, objects: [live] });
  return isInvalid(error) ? failed : conflict(error);
}

function conflict(error: Error): Performed {
  return { results: [{ kind: "conflict", error }], error };
}

const ended: Performed = { end: { kind: "done" }, results: [{ kind: "notTried" }] };
