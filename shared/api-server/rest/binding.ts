/**
 * `/binding` of a pod: the only way to set its nodeName.
 *
 * Source: kubernetes/pkg/registry/core/pod/storage/storage.go (BindingREST.setPodNodeAndMetadata).
 */
import { conflict } from "../scheme/api-error.ts";
import { timestamp } from "../registry/generate-name.ts";
import { clone, ensureObject, type JsonObject, listAt, metaOf, nameOf, objectAt, objectsAt, stringMap, textAt } from "@deltaloop/base";

/** @throws {ApiError} 409 if the pod cannot be bound */
export function withBinding(pod: JsonObject, binding: JsonObject, nowMs: number): JsonObject {
  const node = textAt(objectAt(binding, "target"), "name") ?? "";
  const spec = objectAt(pod, "spec");
  const bound = textAt(spec, "nodeName");
  const refuse = (why: string): never => {
    throw conflict({ group: "", resource: "pods/binding" }, nameOf(pod), why);
  };
  if (metaOf(pod)["deletionTimestamp"] !== undefined) refuse(`pod ${nameOf(pod)} is being deleted, cannot be assigned to a host`);
  if (bound !== undefined && bound !== "") refuse(`pod ${nameOf(pod)} is already assigned to node "${bound}"`);
  if (listAt(spec, "schedulingGates").length > 0) refuse(`pod ${nameOf(pod)} has non-empty .spec.schedulingGates`);

  const result = clone(pod);
  ensureObject(result, "spec")["nodeName"] = node;
  const annotations = stringMap(metaOf(binding)["annotations"]);
  if (Object.keys(annotations).length > 0) Object.assign(ensureObject(ensureObject(result, "metadata"), "annotations"), annotations);
  const status = ensureObject(result, "status");
  const others = objectsAt(status, "conditions").filter((condition) => condition["type"] !== "PodScheduled");
  status["conditions"] = [...others, { type: "PodScheduled", status: "True", lastProbeTime: null, lastTransitionTime: timestamp(nowMs) }];
  return result;
}
