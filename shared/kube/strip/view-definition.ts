/** Defines the data that a user controller caches of one resource. */
import type { CachedObject } from "../objects/cached.ts";
import type { OwnerId } from "../objects/owner-id.ts";
import type { OwnController, OwnView, Resource } from "../objects/resources.ts";
import type { Digester } from "../pod-template/digest.ts";

export interface ViewDefinition {
  readonly name: OwnView;
  /** The resource whose watch feeds the view. */
  readonly resource: Resource;
  /** Whether the resource is watched as PartialObjectMetadata, so that only metadata leaves the API server. */
  readonly isMetadataOnly: boolean;
  /**
   * Returns the object in its cached form (`projected`). Pure and idempotent: the input is an object of the resource, or one that was
   * projected already.
   * @throws {MalformedObjectError}
   */
  readonly project: (object: unknown, digester: Digester) => CachedObject;
  /** Returns the slice of a row. Absent for a primary, which is read by its key. */
  readonly slice?: (object: CachedObject) => OwnerId | undefined;
  /** Whether the controller does not select the object, a primary; lists and resyncs then do not enqueue it. */
  readonly isOutside?: (object: CachedObject) => boolean;
}

/** The name of a view. `projection` identifies the kept fields and the slices, so that a different projection is a different view. */
export function viewName(resource: Resource, controller: OwnController, projection: string): OwnView {
  return `${resource}~${controller}~${projection}`;
}
