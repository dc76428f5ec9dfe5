/** Adopt and release, in groups, for pods and ReplicaSets (replicaset §6, deployment §5.1). */
import { RESOURCES, objectKey } from "@deltaloop/kube/objects";
import type { Cached, KubeObject } from "@deltaloop/kube/objects";
import { NotSentError, isInvalid, isNotFound } from "@deltaloop/kube/client";
import type { PatchRequest } from "@deltaloop/kube/client";
import { LeaseEndsError, aggregate, toError } from "../errors.ts";
import { inTurn } from "../in-turn.ts";
import type { Performed, StoredResult, WriteOf, WriteResult } from "../performed.ts";
import { storedObject } from "./calls.ts";
import type { RunCalls } from "./calls.ts";
import { adoptionProblem } from "./live-owner.ts";

export type ClaimWrite = WriteOf<"Adopt"> | WriteOf<"Release">;

type Outcome = { readonly kind: "patched"; readonly object: KubeObject } | Exclude<WriteResult, StoredResult>;

/** Responses per write-through: the Store's limit for one step. */
const CLAIMS_MAX = 500;

/**
 * Reads the owner live before the first adoption. If it is gone or being deleted, every adoption fails with upstream's message,
 * and releases are still sent. The aggregate holds every error.
 */
export async function claim(calls: RunCalls, writes: readonly ClaimWrite[]): Promise<Performed> {
  const adoption = writes.find((write) => write.kind === "Adopt");
  const live = adoption && (await calls.ownerToAdopt(adoption.owner));
  const problem = live && adoptionProblem(live, adoption.owner);
  const refused = problem === undefined ? undefined : { problem, cause: live?.kind === "failed" ? live.error : undefined };
  const results: WriteResult[] = [];
  for (let from = 0; from < writes.length; from += CLAIMS_MAX) {
    if (!calls.run.mayWrite()) throw new LeaseEndsError();
    results.push(...(await claimGroup(calls, writes.slice(from, from + CLAIMS_MAX), refused)));
  }
  const error = aggregate(results.flatMap((result) => (result.kind === "failed" ? [result.error] : [])));
  return { results, ...(error && { error }) };
}

/** Writes the responses through, even if some calls failed. @throws {LeaseEndsError} if some calls could not be sent */
async function claimGroup(
  calls: RunCalls,
  writes: readonly ClaimWrite[],
  refused: { readonly problem: string; readonly cause: Error | undefined } | undefined,
): Promise<readonly WriteResult[]> {
  const begun = await inTurn(writes, calls.run.mayWrite, async (write) =>
    write.kind === "Adopt" && refused ? refusal(write, refused.problem, refused.cause) : patchOwner(calls, write),
  );
  const outcomes = begun.map((outcome): Outcome => outcome ?? { kind: "notTried" });
  const resource = writes[0]?.resource ?? "pods";
  const objects = outcomes.flatMap((outcome) => (outcome.kind === "patched" ? [outcome.object] : []));
  const gone = writes.flatMap(({ owner, name, uid }, i) =>
    outcomes[i]?.kind === "gone" && isNotFound(outcomes[i].error) ? [{ key: objectKey(owner.namespace, name), uid }] : [],
  );
  const cached = [...(await calls.save({ resource, objects, gone }))];
  if (outcomes.some(({ kind }) => kind === "notTried")) throw new LeaseEndsError();
  return outcomes.map((outcome): WriteResult => (outcome.kind === "patched" ? stored(resource, cached.shift()) : outcome));
}

function stored(resource: "pods" | "replicasets", object: Cached | undefined): StoredResult {
  // `save` returns one object per given object, of the same resource
  return { kind: "stored", resource, object } as StoredResult;
}

function refusal({ resource, owner, name, uid }: ClaimWrite, why: string, cause: Error | undefined): Outcome {
  const message = `can't adopt ${RESOURCES[resource].kind} ${owner.namespace}/${name} (${uid}): ${why}`;
  return { kind: "failed", error: new Error(message, { cause }) };
}

async function patchOwner(calls: RunCalls, write: ClaimWrite): Promise<Outcome> {
  try {
    const object = storedObject(await calls.gateway.patch(claimPatch(write), calls.seenRow(write.owner.namespace, write)));
    return object ? { kind: "patched", object } : { kind: "failed", error: new Error("the response to a patch has no object") };
  } catch (thrown) {
    const error = toError(thrown);
    if (error instanceof NotSentError) return { kind: "notTried" };
    // A release succeeds if the object is gone or replaced (422). A 422 for an adoption means that another controller adopted the object
    // first.
    if (isNotFound(error) || (write.kind === "Release" && isInvalid(error))) return { kind: "gone", error };
    return { kind: "failed", error };
  }
}

/**
 * A strategic merge patch. The list's merge key is `uid`, so an existing entry without the controller flag is upgraded and other
 * entries stay. `metadata.uid` makes the API server reject the patch (422) if another object has the name.
 *
 * Source: pkg/controller/controller_ref_manager.go ownerRefControllerPatch, GenerateDeleteOwnerRefStrategicMergeBytes.
 */
export function claimPatch({ kind, owner, resource, name, uid }: ClaimWrite): PatchRequest {
  const { apiVersion, kind: ownerKind } = RESOURCES[owner.resource];
  const reference =
    kind === "Adopt"
      ? { apiVersion, kind: ownerKind, name: owner.name, uid: owner.uid, controller: true, blockOwnerDeletion: true }
      : { $patch: "delete", uid: owner.uid };
  return {
    resource,
    namespace: owner.namespace,
    name,
    type: "application/strategic-merge-patch+json",
    body: { metadata: { uid, ownerReferences: [reference] } },
  };
}
