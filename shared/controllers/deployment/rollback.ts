/** Rollback to an earlier revision, requested by an annotation (deployment §15.1). */
import type { CachedDeployment, KubeObject, Labels } from "@deltaloop/kube/objects";
import type { JsonObject } from "@deltaloop/base";
import { isObject, ownAt } from "@deltaloop/base";
import { Sealed } from "../kit/sealed.ts";
import type { EventNote } from "../kit/writes.ts";
import { REQUEST_ENDED, rollbackAnnotations, rollbackRequest } from "./annotations.ts";
import type { DeploymentReason } from "./reasons.ts";
import { HASH_LABEL } from "./replica-set-body.ts";
import { allReplicaSets, type ReplicaSetSplit, sameTemplate } from "./replica-sets.ts";
import { lastRevision, revisionOf } from "./revision.ts";
import { ownerOf, type RollBack, templateOf } from "./writes.ts";

export interface Rollback {
  readonly write: RollBack;
  /** Emitted before the write, regardless of the write's result. */
  readonly warning?: EventNote;
  /** Emitted after the write succeeded. */
  readonly note?: EventNote;
  readonly why: DeploymentReason;
}

/**
 * The write and the Event that complete a rollback request. Each outcome is one write to the Deployment and changes no size: the changed
 * template starts a rollout, in which the target ReplicaSet gets the next revision.
 *
 *     revisions 1, 2, 3 (new), requested 0 → to 2, `Rolled back deployment "web" to revision 2`
 *     requested 3 → only the request is removed, DeploymentRollbackTemplateUnchanged      requested 9 → DeploymentRollbackRevisionNotFound
 *
 * Source: rollback.go rollback, rollbackToTemplate.
 */
export function rollbackStep(d: CachedDeployment, split: ReplicaSetSplit, requested: bigint): Rollback {
  const end: RollBack = {
    kind: "RollBack",
    owner: ownerOf(d),
    resourceVersion: d.metadata.resourceVersion,
    request: rollbackRequest(d),
    template: templateOf(d),
  };
  const all = allReplicaSets(split);
  const revision = requested === 0n ? lastRevision(all) : requested;
  const facts = { revision: String(revision) };
  const nothing: DeploymentReason = { rule: "rollback finds nothing", facts };
  if (revision === 0n) return { write: end, warning: notFound("Unable to find last revision."), why: nothing };
  const target = all.find((rs) => revisionOf(rs) === revision);
  if (target === undefined) return { write: end, warning: notFound("Unable to find the revision to rollback to."), why: nothing };
  const about = target.metadata.name;
  const { name } = d.metadata;
  const { template } = target.spec;
  if (template === undefined || sameTemplate(d.spec.template, template)) {
    const message = `The rollback revision contains the same template as current deployment "${name}"`;
    const warning: EventNote = { type: "Warning", reason: "DeploymentRollbackTemplateUnchanged", message };
    return { write: end, warning, why: { rule: "rollback changes nothing", about, facts } };
  }
  const to = { name: target.metadata.name, uid: target.metadata.uid, digest: template.digest };
  const message = `Rolled back deployment "${name}" to revision ${revision}`;
  const note: EventNote = { type: "Normal", reason: "DeploymentRollback", message };
  return { write: { ...end, to }, note, why: { rule: "rolls back", about, facts } };
}

function notFound(message: string): EventNote {
  return { type: "Warning", reason: "DeploymentRollbackRevisionNotFound", message };
}

/**
 * The merge patch that gives the Deployment the ReplicaSet's template and annotations, or only removes the request. It names the
 * fields to remove, so it is valid only for the Deployment version that it was made from.
 */
export function rollbackBody(live: KubeObject, target: KubeObject | undefined, { owner, resourceVersion, to }: RollBack): Sealed<object> {
  const identity = { uid: owner.uid, resourceVersion };
  if (target === undefined) return new Sealed({ metadata: { ...identity, annotations: REQUEST_ENDED } }, "no template");
  const annotations = rollbackAnnotations(live.metadata.annotations, target.metadata.annotations);
  const template = mergePatch(templateIn(live), withoutHash(templateIn(target)));
  return new Sealed({ metadata: { ...identity, annotations }, spec: { template } }, to?.digest ?? "no template");
}

/** Every Deployment and ReplicaSet from the API server has a template. */
function templateIn(object: KubeObject): JsonObject {
  return (object as KubeObject & { readonly spec: { readonly template: JsonObject } }).spec.template;
}

function withoutHash(template: JsonObject): JsonObject {
  const metadata = template["metadata"] as (JsonObject & { readonly labels?: Labels }) | undefined; // the value is a pod template
  const { [HASH_LABEL]: _hash, ...labels } = metadata?.labels ?? {};
  return { ...template, metadata: { ...metadata, labels } };
}

/**
 * The merge patch (RFC 7396) from `from` to `to`: objects key by key, lists and other values as a whole.
 *
 *     { a: 1, b: { c: 2, d: 3 } }, { b: { c: 2 }, e: [4] } → { a: null, b: { d: null }, e: [4] }
 */
export function mergePatch(from: JsonObject, to: JsonObject): JsonObject {
  const gone = Object.keys(from).filter((key) => (ownAt(to, key) ?? null) === null);
  const set = Object.entries(to).flatMap(([key, value]) => {
    const before = ownAt(from, key);
    if (value === undefined || value === null) return [];
    return [[key, isObject(value) && isObject(before) ? mergePatch(before, value) : value] as const];
  });
  return { ...Object.fromEntries(gone.map((key) => [key, null])), ...Object.fromEntries(set) };
}
