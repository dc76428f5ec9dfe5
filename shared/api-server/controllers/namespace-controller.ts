/**
 * The namespace lifecycle: creates a default ServiceAccount, and deletes the contents before the namespace.
 *
 * Source: kubernetes/pkg/controller/namespace/deletion/namespaced_resources_deleter.go, pkg/controller/serviceaccount.
 */
import type { Clock } from "@deltaloop/base";
import { ApiError } from "../scheme/api-error.ts";
import { createBackgroundLoop } from "./background-loop.ts";
import { clone, ensureObject, metaOf, nameOf, namespaceOf } from "@deltaloop/base";
import type { Registry } from "../registry/registry.ts";
import type { Storage } from "../storage/storage.ts";

export function runNamespaceController(
  storage: Storage,
  registry: Registry,
  clock: Clock,
  options: { readonly delayMs: number; readonly signal: AbortSignal },
): void {
  const loop = createBackgroundLoop(clock, options.delayMs, options.signal, (name) => syncNamespace(storage, registry, name));
  storage.subscribe(({ type, resource, object }) => {
    if (resource === "namespaces") {
      if (type !== "DELETED") loop.add(nameOf(object));
      return;
    }
    // The last object may have left a terminating namespace.
    if (type === "DELETED" && isTerminating(storage, namespaceOf(object))) loop.add(namespaceOf(object));
  });
}

function isTerminating(storage: Storage, name: string): boolean {
  const namespace = storage.get("namespaces", "", name);
  return namespace !== undefined && metaOf(namespace)["deletionTimestamp"] !== undefined;
}

function syncNamespace(storage: Storage, registry: Registry, name: string): void {
  if (storage.get("namespaces", "", name) === undefined) return;
  try {
    if (isTerminating(storage, name)) empty(storage, registry, name);
    else if (storage.get("serviceaccounts", name, "default") === undefined) {
      registry.create(registry.resources.byId("serviceaccounts"), name, { metadata: { name: "default" } });
    }
  } catch (error) {
    // A concurrent write causes this rejection; its event requeues the namespace.
    if (!(error instanceof ApiError)) throw error;
  }
}

function empty(storage: Storage, registry: Registry, name: string): void {
  let left = 0;
  for (const definition of registry.resources.stored) {
    if (!definition.namespaced) continue;
    for (const object of storage.list(definition.id, name)) {
      if (metaOf(object)["deletionTimestamp"] === undefined) {
        registry.delete(definition, { namespace: name, name: nameOf(object), propagationPolicy: "Background" });
      }
    }
    left += storage.count(definition.id, name);
  }
  if (left > 0) return;
  registry.update(registry.resources.byId("namespaces"), {
    namespace: "",
    name,
    subresource: "finalize",
    verb: "patch",
    transform: (current) => {
      const object = clone(current);
      ensureObject(object, "spec")["finalizers"] = [];
      return object;
    },
  });
}
