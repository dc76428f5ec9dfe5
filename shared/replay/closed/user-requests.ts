/**
 * The user requests of a recorded cluster, in a form that can be sent to another cluster.
 *
 * HP1 a change of an object without controller (an owner, or a pod without owner) is a user request. Objects that controllers create have
 *     other names in another cluster, so user changes to them are only listed (`left`).
 * HP2 status and revision belong to the controllers. All other fields of an object are the user's, at each change.
 */
import { controllerRef, RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import { canonical } from "../shadow/canonical-write.ts";
import { placeOf } from "../shadow/states.ts";
import type { Change, Json, LiveObject } from "../shadow/states.ts";

export type Propagation = "Background" | "Foreground" | "Orphan";

export type UserRequest = {
  readonly atMs: number;
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
} & ({ readonly kind: "create" | "update"; readonly object: LiveObject } | { readonly kind: "delete"; readonly propagation: Propagation });

export interface UserRequests {
  /** Sorted by time. */
  readonly writes: readonly UserRequest[];
  /** User changes to objects of controllers, for example `labels of Pod shop/web-x2x4z`. */
  readonly left: readonly string[];
}

const REVISION = "deployment.kubernetes.io/revision";

/** Processes changes in the order of versions. */
export class UserRequestCollector {
  readonly #known = new Map<string, LiveObject>();
  readonly #writes: UserRequest[] = [];
  readonly #left: string[] = [];
  readonly #people = new Set<string>();

  get userRequests(): UserRequests {
    return { writes: this.#writes, left: this.#left };
  }

  /** The current objects. */
  get standing(): readonly LiveObject[] {
    return [...this.#known.values()];
  }

  see(change: Change): void {
    const place = placeOf(change.object);
    const known = this.#known.get(place);
    const before = known?.metadata.uid === change.object.metadata.uid ? known : undefined;
    if (change.deleted) this.#known.delete(place);
    else this.#known.set(place, change.object);
    const isControlled = controllerRef((before ?? change.object).metadata) !== undefined;
    if (before === undefined && !change.listed && !isControlled) this.#people.add(place);
    if (isControlled) {
      if (before === undefined || change.deleted || !labelsDiffer(before, change.object)) return;
      // A user created this object and a controller adopted it later, so it has the same name in both clusters.
      if (this.#people.has(place)) this.#writes.push(updateOf(change));
      else this.#left.push(`labels of ${place}`);
      return;
    }
    // Initially listed objects are not user requests.
    if (change.listed) return;
    // An object without controller may have had one before.
    const write = writeOf(change, before);
    if (write !== undefined) this.#writes.push(write);
  }
}

function writeOf({ atMs, resource, object, deleted }: Change, before: LiveObject | undefined): UserRequest | undefined {
  const { namespace, name, deletionTimestamp } = object.metadata;
  const at = { atMs, resource, namespace, name };
  if (before === undefined) return deleted ? undefined : { ...at, kind: "create", object: desired(object) };
  if (before.metadata.deletionTimestamp !== undefined) return undefined;
  if (deleted || deletionTimestamp !== undefined) return { ...at, kind: "delete", propagation: propagationOf(object) };
  if (controllerRef(object.metadata) !== undefined || canonical(desired(before)) === canonical(desired(object))) return undefined;
  // The kubelet and the scheduler also write a pod's spec.
  if (resource === "pods" && !labelsDiffer(before, object)) return undefined;
  return { ...at, kind: "update", object: desired(object) };
}

function updateOf({ atMs, resource, object }: Change): UserRequest {
  const { namespace, name } = object.metadata;
  return { atMs, resource, namespace, name, kind: "update", object: desired(object) };
}

/** The propagation policy, derived from the finalizers. */
function propagationOf({ metadata }: LiveObject): Propagation {
  const { finalizers = [] } = metadata as { readonly finalizers?: readonly string[] };
  if (finalizers.includes("orphan")) return "Orphan";
  return finalizers.includes("foregroundDeletion") ? "Foreground" : "Background";
}

function labelsDiffer(a: LiveObject, b: LiveObject): boolean {
  return canonical(a.metadata.labels ?? {}) !== canonical(b.metadata.labels ?? {});
}

/** HP2: the object as the user would have applied it. */
function desired({ apiVersion, kind, metadata, spec }: LiveObject): LiveObject {
  const { namespace, name, labels = {}, annotations = {} } = metadata;
  const { [REVISION]: _, ...own } = annotations;
  const { finalizers = [] } = metadata as { readonly finalizers?: readonly string[] };
  const kept = finalizers.filter((each) => each !== "orphan" && each !== "foregroundDeletion");
  const { nodeName: _node, ...rest } = (spec ?? {}) as Json & { readonly nodeName?: unknown };
  return {
    apiVersion: apiVersion ?? RESOURCES.pods.apiVersion,
    kind,
    metadata: { namespace, name, labels, annotations: own, ...(kept.length > 0 && { finalizers: kept }) },
    spec: kind === "Pod" ? rest : (spec ?? {}),
  } as unknown as LiveObject; // the fields that the server sets are omitted
}
