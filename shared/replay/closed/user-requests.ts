/**
 * The user requests of a recorded cluster, in a form that can be sent to another cluster.
 *
 * HP1 an owner that nobody controls, or a pod without owner, is created, changed and deleted by people; what a controller owns is the
 *    controller's, and what of it people change has another name in another cluster: it is counted, not made again.
 * HP2 status and revision are the controllers'. The rest of an object is people's, as it stands after each change.
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
  /** In the order of time. */
  readonly writes: readonly UserRequest[];
  /** Changes to what controllers own that no controller makes, as `labels of Pod shop/web-x2x4z`. */
  readonly left: readonly string[];
}

const REVISION = "deployment.kubernetes.io/revision";

export function userRequestsOf(changes: readonly Change[]): UserRequests {
  const seen = new UserRequestCollector();
  for (const change of changes) seen.see(change);
  return seen.userRequests;
}

/** Change by change, in the order of versions. */
export class UserRequestCollector {
  readonly #known = new Map<string, LiveObject>();
  readonly #writes: UserRequest[] = [];
  readonly #left: string[] = [];
  readonly #people = new Set<string>();

  get userRequests(): UserRequests {
    return { writes: this.#writes, left: this.#left };
  }

  /** As it stands by what was seen. */
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
      // Adopted meanwhile, and people know it by its name.
      if (this.#people.has(place)) this.#writes.push(updateOf(change));
      else this.#left.push(`labels of ${place}`);
      return;
    }
    // What stood there when somebody began to look is nobody's write.
    if (change.listed) return;
    // What nobody controls any more was a controller's while somebody did.
    const write = writeOf(change, before);
    if (write !== undefined) this.#writes.push(write);
  }
}

function writeOf({ atMs, resource, object, deleted }: Change, before: LiveObject | undefined): UserRequest | undefined {
  const { namespace, name, deletionTimestamp } = object.metadata;
  const at = { atMs, resource, namespace, name };
  if (before === undefined) return deleted ? undefined : { ...at, kind: "create", object: asked(object) };
  if (before.metadata.deletionTimestamp !== undefined) return undefined;
  if (deleted || deletionTimestamp !== undefined) return { ...at, kind: "delete", propagation: propagationOf(object) };
  if (controllerRef(object.metadata) !== undefined || canonical(asked(before)) === canonical(asked(object))) return undefined;
  // Of a pod the kubelet and the scheduler write the spec, too.
  if (resource === "pods" && !labelsDiffer(before, object)) return undefined;
  return { ...at, kind: "update", object: asked(object) };
}

function updateOf({ atMs, resource, object }: Change): UserRequest {
  const { namespace, name } = object.metadata;
  return { atMs, resource, namespace, name, kind: "update", object: asked(object) };
}

/** Its finalizers tell what was asked for. */
function propagationOf({ metadata }: LiveObject): Propagation {
  const { finalizers = [] } = metadata as { readonly finalizers?: readonly string[] };
  if (finalizers.includes("orphan")) return "Orphan";
  return finalizers.includes("foregroundDeletion") ? "Foreground" : "Background";
}

function labelsDiffer(a: LiveObject, b: LiveObject): boolean {
  return canonical(a.metadata.labels ?? {}) !== canonical(b.metadata.labels ?? {});
}

/** HP2: what a person would have applied. */
function asked({ apiVersion, kind, metadata, spec }: LiveObject): LiveObject {
  const { namespace, name, labels = {}, annotations = {} } = metadata;
  const { [REVISION]: _, ...own } = annotations;
  const { finalizers = [] } = metadata as { readonly finalizers?: readonly string[] };
  const held = finalizers.filter((each) => each !== "orphan" && each !== "foregroundDeletion");
  const { nodeName: _node, ...rest } = (spec ?? {}) as Json & { readonly nodeName?: unknown };
  return {
    apiVersion: apiVersion ?? RESOURCES.pods.apiVersion,
    kind,
    metadata: { namespace, name, labels, annotations: own, ...(held.length > 0 && { finalizers: held }) },
    spec: kind === "Pod" ? rest : (spec ?? {}),
  } as unknown as LiveObject; // what a server makes of it is its own
}
