/**
 * Handles a DELETE: removes the object, or marks it and leaves the removal to its node, finalizers or the garbage collector.
 *
 * Source: apiserver/pkg/registry/rest/delete.go (BeforeDelete), generic/registry/store.go (updateForGracefulDeletionAndFinalizers),
 * kubernetes/pkg/registry/core/pod/strategy.go (CheckGracefulDelete), core/namespace/storage/storage.go.
 */
import { conflict } from "../scheme/api-error.ts";
import { timestamp } from "./generate-name.ts";
import { clone, ensureObject, type JsonObject, jsonEqual, listAt, metaOf, nameOf, numberAt, objectAt, textAt } from "@deltaloop/base";
import { markedForCleanup } from "../custom/definition-object.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";

export type PropagationPolicy = "Background" | "Foreground" | "Orphan";

export interface DeleteOptions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly gracePeriodSeconds?: number | undefined;
  readonly propagationPolicy?: PropagationPolicy | undefined;
  readonly dryRun?: boolean | undefined;
}

export interface DeletionPlan {
  /** The marked object to store first; absent if it does not change before its removal. */
  readonly marked?: JsonObject;
  readonly isImmediate: boolean;
}

export const ORPHAN_FINALIZER = "orphan";
export const FOREGROUND_FINALIZER = "foregroundDeletion";

/** @throws {ApiError} 409 if a precondition fails */
export function planDeletion(definition: ResourceDefinition, current: JsonObject, options: DeleteOptions, nowMs: number): DeletionPlan {
  checkPreconditions(definition, current, options);
  if (definition.builtInKind === "CustomResourceDefinition" && metaOf(current)["deletionTimestamp"] === undefined)
    return { marked: markedForCleanup(current, timestamp(nowMs)), isImmediate: false };
  const object = clone(current);
  const meta = ensureObject(object, "metadata");
  const isTerminating = meta["deletionTimestamp"] !== undefined;
  const isGraceful = definition.builtInKind === "Pod" && markGracefully(object, options, nowMs);
  if (isGraceful === "pending") return { isImmediate: false };

  const finalizers = finalizersFor(definition, listAt(meta, "finalizers"), options.propagationPolicy);
  if (finalizers.length > 0 || meta["finalizers"] !== undefined) meta["finalizers"] = [...finalizers];
  if (finalizers.length === 0) delete meta["finalizers"];
  const isHeld = finalizers.length > 0 || listAt(objectAt(object, "spec"), "finalizers").length > 0;
  if (isHeld && isGraceful === false) markNow(definition, object, isTerminating, nowMs);
  const isImmediate = !isHeld && (isGraceful === false || numberAt(meta, "deletionGracePeriodSeconds") === 0);
  return jsonEqual(object, current) ? { isImmediate } : { marked: object, isImmediate };
}

function checkPreconditions(definition: ResourceDefinition, current: JsonObject, { uid, resourceVersion }: DeleteOptions): void {
  const about = { group: definition.group, resource: definition.kind };
  const record = metaOf(current);
  if (uid !== undefined && uid !== record["uid"]) {
    const why = `the UID in the precondition (${uid}) does not match the UID in record (${textAt(record, "uid")}). The object might have been deleted and then recreated`;
    throw conflict(about, nameOf(current), why);
  }
  if (resourceVersion !== undefined && resourceVersion !== record["resourceVersion"]) {
    const why = `the ResourceVersion in the precondition (${resourceVersion}) does not match the ResourceVersion in record (${textAt(record, "resourceVersion")}). The object might have been modified`;
    throw conflict(about, nameOf(current), why);
  }
}

/**
 * Starts graceful deletion of a pod. Returns `true` if it marked the pod, "pending" if it was marked already, `false` for immediate
 * removal.
 */
function markGracefully(pod: JsonObject, options: DeleteOptions, nowMs: number): boolean | "pending" {
  const meta = ensureObject(pod, "metadata");
  const asked = options.gracePeriodSeconds === undefined ? undefined : atLeastOneIfNegative(options.gracePeriodSeconds);
  const marked = textAt(meta, "deletionTimestamp");
  if (marked !== undefined) {
    const old = numberAt(meta, "deletionGracePeriodSeconds") ?? 0;
    if (old === 0) return false;
    // A later deletion can only shorten the grace period.
    if (asked === undefined || asked >= old) return "pending";
    const moved = Date.parse(marked) + (asked - old) * 1000;
    meta["deletionTimestamp"] = timestamp(Math.max(moved, nowMs));
    meta["deletionGracePeriodSeconds"] = moved < nowMs && asked !== 0 ? 1 : asked;
    return true;
  }
  const grace = gracePeriodOf(pod, asked);
  meta["deletionTimestamp"] = timestamp(nowMs + grace * 1000);
  meta["deletionGracePeriodSeconds"] = grace;
  raiseGeneration(meta);
  return true;
}

function gracePeriodOf(pod: JsonObject, asked: number | undefined): number {
  const spec = objectAt(pod, "spec");
  const phase = textAt(objectAt(pod, "status"), "phase");
  // No kubelet runs the pod, so there is nothing to wait for.
  if (textAt(spec, "nodeName") === undefined || phase === "Failed" || phase === "Succeeded") return 0;
  return atLeastOneIfNegative(asked ?? numberAt(spec, "terminationGracePeriodSeconds") ?? 0);
}

function atLeastOneIfNegative(seconds: number): number {
  return seconds < 0 ? 1 : seconds;
}

function markNow(definition: ResourceDefinition, object: JsonObject, isTerminating: boolean, nowMs: number): void {
  if (isTerminating) return;
  const meta = ensureObject(object, "metadata");
  meta["deletionTimestamp"] = timestamp(nowMs);
  if (definition.builtInKind === "Namespace") {
    ensureObject(object, "status")["phase"] = "Terminating";
    return;
  }
  meta["deletionGracePeriodSeconds"] = 0;
  raiseGeneration(meta);
}

function raiseGeneration(meta: JsonObject): void {
  const generation = numberAt(meta, "generation") ?? 0;
  if (generation > 0) meta["generation"] = generation + 1;
}

function finalizersFor(definition: ResourceDefinition, existing: readonly unknown[], policy: PropagationPolicy | undefined): string[] {
  const others = existing.filter(
    (one): one is string => typeof one === "string" && one !== ORPHAN_FINALIZER && one !== FOREGROUND_FINALIZER,
  );
  switch (policy ?? policyOf(definition, existing)) {
    case "Orphan":
      return [...others, ORPHAN_FINALIZER];
    case "Foreground":
      return [...others, FOREGROUND_FINALIZER];
    case "Background":
      return others;
  }
}

/** Without a requested policy an existing finalizer decides, then the kind. */
function policyOf(definition: ResourceDefinition, existing: readonly unknown[]): PropagationPolicy {
  if (existing.includes(ORPHAN_FINALIZER)) return "Orphan";
  if (existing.includes(FOREGROUND_FINALIZER)) return "Foreground";
  return definition.defaultPropagation;
}
