/**
 * ResourceQuota with object counts: `pods` (those not yet terminated) and `count/<resource>[.<group>]`.
 *
 * Source: k8s.io/apiserver/pkg/admission/plugin/resourcequota (controller.go, text of the rejection),
 * kubernetes/pkg/quota/v1/evaluator/core/pods.go.
 */
import { forbidden } from "../scheme/api-error.ts";
import { clone, type JsonObject, jsonEqual, nameOf, namespaceOf, objectAt, stringMap, textAt } from "@deltaloop/base";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ServedResources } from "../scheme/served-resources.ts";
import type { Storage } from "../storage/storage.ts";
import type { StorageEvent } from "../storage/watch-history.ts";

const QUOTAS = "resourcequotas";

interface Stored {
  readonly storage: Storage;
  readonly resources: ServedResources;
}

/**
 * Checks the quotas before `object` is created.
 *
 * @throws {ApiError} 403 if a quota of the namespace is exceeded
 */
export function admitByQuota({ storage, resources }: Stored, definition: ResourceDefinition, namespace: string, object: JsonObject): void {
  if (!definition.namespaced || storage.count(QUOTAS, namespace) === 0) return;
  for (const quota of storage.list(QUOTAS, namespace)) {
    const hard = hardLimits(quota);
    const exceeded = Object.keys(hard)
      .filter((name) => counts(resources, name, definition, object))
      .map((name) => ({ name, used: usage({ storage, resources }, namespace, name), limited: hard[name] ?? "0" }))
      .filter(({ used, limited }) => used + 1 > Number(limited));
    if (exceeded.length === 0) continue;
    const print = (value: (one: (typeof exceeded)[number]) => string | number): string =>
      exceeded.map((one) => `${one.name}=${value(one)}`).join(",");
    throw forbidden(
      definition,
      nameOf(object),
      `exceeded quota: ${nameOf(quota)}, requested: ${print(() => 1)}, used: ${print(({ used }) => used)}, limited: ${print(({ limited }) => limited)}`,
    );
  }
}

/** Updates `status.hard` and `status.used` of a namespace's quotas after a change. */
export function refreshQuotas({ storage, resources }: Stored, event: StorageEvent): void {
  const namespace = namespaceOf(event.object);
  if (storage.count(QUOTAS, namespace) === 0) return;
  // Usage depends only on quota specs and on objects that are created, deleted or terminated.
  if (event.type === "MODIFIED" && event.resource !== QUOTAS && event.resource !== "pods") return;
  for (const quota of storage.list(QUOTAS, namespace)) {
    const hard = hardLimits(quota);
    const used = Object.fromEntries(
      Object.keys(hard)
        .filter((name) => countedResource(resources, name) !== undefined)
        .map((name) => [name, String(usage({ storage, resources }, namespace, name))]),
    );
    const status: JsonObject = { hard, used };
    if (jsonEqual(quota["status"], status)) continue;
    storage.put(QUOTAS, { ...clone(quota), status });
  }
}

function hardLimits(quota: JsonObject): Record<string, string> {
  return stringMap(objectAt(quota, "spec")?.["hard"]);
}

function countedResource(resources: ServedResources, name: string): ResourceDefinition | undefined {
  if (name === "pods") return resources.byId("pods");
  return name.startsWith("count/") ? resources.findById(name.slice("count/".length)) : undefined;
}

function counts(resources: ServedResources, name: string, definition: ResourceDefinition, object: JsonObject): boolean {
  return countedResource(resources, name)?.id === definition.id && (name !== "pods" || !isTerminated(object));
}

function usage({ storage, resources }: Stored, namespace: string, name: string): number {
  const definition = countedResource(resources, name);
  if (definition === undefined) return 0;
  if (name !== "pods") return storage.count(definition.id, namespace);
  return storage.list("pods", namespace).filter((pod) => !isTerminated(pod)).length;
}

function isTerminated(pod: JsonObject): boolean {
  const phase = textAt(objectAt(pod, "status"), "phase");
  return phase === "Succeeded" || phase === "Failed";
}
