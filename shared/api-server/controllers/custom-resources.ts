/**
 * Serves the resources of CustomResourceDefinitions, accepts their names, and deletes their objects before them.
 *
 * CD1 a resource is served from the write on that accepts its names until its definition is deleted.
 * CD2 a definition is deleted after all of its objects.
 *
 * Source: apiextensions-apiserver/pkg/controller/{status,establish,finalizer}, pkg/apiserver/customresource_handler.go.
 */
import type { Clock } from "@deltaloop/base";
import { clone, ensureObject, type JsonObject, listAt, metaOf, nameOf, namespaceOf } from "@deltaloop/base";
import { setCondition, withAcceptedNames } from "../custom/conditions.ts";
import { CLEANUP_FINALIZER, CUSTOM_RESOURCE_DEFINITIONS } from "../custom/definition-object.ts";
import { definitionsOf } from "../custom/definitions.ts";
import { timestamp } from "../registry/generate-name.ts";
import type { Registry } from "../registry/registry.ts";
import { ApiError } from "../scheme/api-error.ts";
import type { Storage } from "../storage/storage.ts";
import { createBackgroundLoop } from "./background-loop.ts";

export interface CustomResourceOptions {
  readonly delayMs: number;
  readonly signal: AbortSignal;
  /** Called when a resource is no longer served. @param id `websites.demo.example.com` */
  readonly onRemoved: (id: string) => void;
}

/** @returns a function that reads the definitions again, after the storage was replaced */
export function runCustomResources(storage: Storage, registry: Registry, clock: Clock, options: CustomResourceOptions): () => void {
  const { resources } = registry;
  const all = (): JsonObject[] => storage.list(CUSTOM_RESOURCE_DEFINITIONS, "");
  const serve = (): void => {
    const before = [...resources.stored].filter(({ custom }) => custom !== undefined);
    resources.setCustom(all().flatMap(definitionsOf));
    for (const { id } of before) if (resources.findById(id) === undefined) options.onRemoved(id);
  };
  const update = (crd: JsonObject, subresource: string, change: (object: JsonObject) => void): void => {
    registry.update(resources.byId(CUSTOM_RESOURCE_DEFINITIONS), {
      namespace: "",
      name: nameOf(crd),
      subresource,
      verb: "patch",
      transform: (current) => {
        const object = clone(current);
        change(object);
        return object;
      },
    });
  };

  function sync(name: string): void {
    const crd = storage.get(CUSTOM_RESOURCE_DEFINITIONS, "", name);
    if (crd === undefined) return;
    const now = timestamp(clock.now());
    if (metaOf(crd)["deletionTimestamp"] !== undefined) {
      if (listAt(metaOf(crd), "finalizers").includes(CLEANUP_FINALIZER)) cleanUp(crd, now);
      return;
    }
    const accepted = withAcceptedNames(crd, all(), now);
    if (accepted !== undefined) update(crd, "status", (object) => (object["status"] = accepted["status"] ?? null));
  }

  function cleanUp(crd: JsonObject, now: string): void {
    const definition = resources.findById(nameOf(crd));
    const objects = definition === undefined ? [] : storage.list(definition.id, "");
    for (const object of objects) {
      const isMarked = metaOf(object)["deletionTimestamp"] !== undefined;
      if (definition !== undefined && !isMarked)
        registry.delete(definition, { namespace: namespaceOf(object), name: nameOf(object), propagationPolicy: "Background" });
    }
    const isEmpty = definition === undefined || storage.list(definition.id, "").length === 0;
    update(crd, "status", (object) =>
      setCondition(
        object,
        isEmpty
          ? { type: "Terminating", status: "False", reason: "InstanceDeletionCompleted", message: "removed all instances" }
          : {
              type: "Terminating",
              status: "True",
              reason: "InstanceDeletionInProgress",
              message: "CustomResource deletion is in progress",
            },
        now,
      ),
    );
    if (!isEmpty) return;
    update(crd, "", (object) => {
      const meta = ensureObject(object, "metadata");
      meta["finalizers"] = listAt(meta, "finalizers").filter((one) => one !== CLEANUP_FINALIZER);
    });
  }

  const loop = createBackgroundLoop(clock, options.delayMs, options.signal, (name) => {
    try {
      sync(name);
    } catch (error) {
      // A concurrent write causes this rejection; its event requeues the definition.
      if (!(error instanceof ApiError)) throw error;
    }
  });

  storage.subscribe(({ type, resource, object }) => {
    if (resource === CUSTOM_RESOURCE_DEFINITIONS) {
      serve();
      // A deleted definition frees its names.
      for (const one of type === "DELETED" ? all() : [object]) loop.add(nameOf(one));
    } else if (type === "DELETED") {
      // The last object of a definition that is being deleted may have gone.
      const definition = resources.findById(resource);
      if (definition?.custom?.isTerminating === true) loop.add(resource);
    }
  });
  serve();
  for (const crd of all()) loop.add(nameOf(crd));
  return serve;
}
