/** What an additional controller caches of one resource. */
import type { CachedObject } from "./cached.ts";
import type { OwnerId } from "./owner-id.ts";
import type { OwnController, OwnView, Resource } from "./resources.ts";

export interface ViewDefinition {
  readonly name: OwnView;
  /** The resource whose watch feeds it. */
  readonly resource: Resource;
  /** Watched as PartialObjectMetadata, so that nothing but metadata leaves the API server. */
  readonly isMetadataOnly: boolean;
  /** What is cached of `spec` and `status`. Pure and idempotent; the input is an object of the resource, or one that was projected already. */
  readonly keep?: (object: { readonly spec?: unknown; readonly status?: unknown }) => Pick<CachedObject, "spec" | "status">;
  /** The slice of a row. Absent: a primary, which is read by its key. */
  readonly slice?: (object: CachedObject) => OwnerId | undefined;
}

/** The name of a view. `projection` identifies what it keeps and its slices, so that another projection is another view. */
export function viewName(resource: Resource, controller: OwnController, projection: string): OwnView {
  return `${resource}~${controller}~${projection}`;
}
