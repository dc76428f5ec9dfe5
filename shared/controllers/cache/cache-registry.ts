/** The part of a registry that the cache uses: names, event handlers and views (shared/controllers/registry/registry.ts). */
import { isOwnView, ownerOfCached } from "@deltaloop/kube/objects";
import type { Cached, CachedObject, Catalog, OwnerId, OwnView, Resource, View } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { strip } from "@deltaloop/kube/strip";
import type { ViewDefinition } from "@deltaloop/kube/strip";
import type { AffectedKeys } from "./affected-keys.ts";

export interface CacheRegistry {
  readonly catalog: Catalog;
  /** The tables of affected keys, in the order of the catalog's controllers. */
  readonly affectedKeys: readonly AffectedKeys[];
  /** The views of user controllers. */
  readonly views: ReadonlyMap<OwnView, ViewDefinition>;
}

type Views = Pick<CacheRegistry, "views">;

/** Returns the object as `view` caches it. @throws {MalformedObjectError} as `strip` does */
export function cachedAs(registry: Views, view: View, object: unknown, digester: Digester): Cached<View> {
  return isOwnView(view) ? definitionOf(registry, view).project(object, digester) : strip(view, object, digester);
}

/** Returns the owner in whose slice `view` stores the object; undefined if it is stored among the orphans of its namespace. */
export function sliceOf(registry: Views, view: View, object: Cached<View>): OwnerId | undefined {
  // The view determines the type of its objects, which TypeScript cannot infer here.
  return isOwnView(view) ? definitionOf(registry, view).slice?.(object as CachedObject) : ownerOfCached(view, object as Cached);
}

/** Whether the object is a primary that its controller does not select. */
export function isOutside({ views }: Views, view: View, object: Cached<View>): boolean {
  return isOwnView(view) && views.get(view)?.isOutside?.(object as CachedObject) === true; // the view determines the type
}

/** Returns the object; undefined if it cannot be cached. For deletes, which are applied without the object, too. */
export function readable(registry: Views, resource: View, object: Cached<View> | undefined): Cached<View> | undefined {
  try {
    if (object !== undefined) sliceOf(registry, resource, object);
    return object;
  } catch {
    return undefined;
  }
}

/** Returns the resource that feeds a view. */
export function resourceOf(registry: Views, view: View): Resource {
  return isOwnView(view) ? definitionOf(registry, view).resource : view;
}

/** Whether the view needs only the metadata of its objects. */
export function needsMetadataOnly({ views }: Views, view: View): boolean {
  return isOwnView(view) && views.get(view)?.isMetadataOnly === true;
}

/**
 * Returns the definition of a view.
 *
 * @throws {RangeError} for a view that the registry lacks: a bug, because messages of an unknown view are not decoded
 */
function definitionOf({ views }: Views, view: OwnView): ViewDefinition {
  const definition = views.get(view);
  if (!definition) throw new RangeError(`unknown view ${view}`);
  return definition;
}
