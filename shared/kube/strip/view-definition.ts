/** What an additional controller caches of one resource. */
import type { CachedObject } from "../objects/cached.ts";
import type { OwnerId } from "../objects/owner-id.ts";
import type { OwnController, OwnView, Resource } from "../objects/resources.ts";
import type { Digester } from "../pod-template/digest.ts";

export interface ViewDefinition {
  readonly name: OwnView;
  /** The resource whose watch feeds it. */
  readonly resource: Resource;
  /** Watched as PartialObjectMetadata, so that nothing but metadata leaves the API server. */
  readonly isMetadataOnly: boolean;
  /**
   * The object as it is cached (`projected`). Pure and idempotent: the input is an object of the resource, or one that was projected already.
   * @throws {MalformedObjectError}
   */
  readonly project: (object: unknown, digester: Digester) => CachedObject;
  /** The slice of a row. Absent: a primary, which is read by its key. */
  readonly slice?: (object: CachedObject) => OwnerId | undefined;
}

/** The name of a view. `projection` identifies what it keeps and its slices, so that another projection is another view. */
export function viewName(resource: Resource, controller: OwnController, projection: string): OwnView {
  return `${resource}~${controller}~${projection}`;
}
