/** Binds a call to its run (GW4–GW8 of gateway.ts): pure comparisons, each with the text of its rejection. */
import { isEventNameOf } from "@deltaloop/kube/events";
import type { ContractRow } from "./contract.ts";
import type { RunOwner, SeenRow } from "./gateway.ts";
import { valueAt } from "./json-pointer.ts";

/** One call: its target, its body (a delete: its preconditions), and the row of the object that it changes. */
export interface BoundCall {
  readonly namespace: string;
  /** Absent for a create. */
  readonly name?: string;
  readonly body: object;
  readonly row?: SeenRow | undefined;
}

const ONE_OWNER = "/metadata/ownerReferences/0";

/** The kind of a controller's primaries. */
export interface PrimaryKind {
  readonly apiVersion: string;
  readonly kind: string;
  /** Set for a user controller: primaries may be cluster-scoped, and ownership is decided by all fields of a reference. */
  readonly isOwn?: true;
}

/** The first broken rule, or undefined. Names paths and fields, never a value. */
export function bindingProblem(contract: ContractRow<string>, primary: PrimaryKind, owner: RunOwner, call: BoundCall): string | undefined {
  const { apiVersion, kind, isOwn = false } = primary;
  const isInCluster = isOwn && owner.namespace === "";
  if ((owner.namespace === "" && !isOwn) || owner.name === "" || owner.uid === "") return "the run has no owner";
  if (call.namespace !== owner.namespace && !(isInCluster && contract.of !== "self")) return "the request's namespace is not the owner's";
  const reference = { apiVersion, kind, name: owner.name, uid: owner.uid };
  switch (contract.of) {
    case "new":
      return foreignNamespace(call) ?? different(call.body, ONE_OWNER, reference);
    case "event":
      if (call.name !== undefined)
        return isEventNameOf(owner.name, call.name) ? undefined : "the Event's name is not that of an Event about the owner";
      return foreignNamespace(call) ?? different(call.body, "/involvedObject", { ...reference, namespace: owner.namespace });
    case "self":
      if (call.name !== owner.name) return "the request's name is not the owner's";
      return uidIn(call.body) === owner.uid ? undefined : "/metadata/uid is not the owner's";
    case "orphan":
      if (call.row?.controller !== undefined) return "its row names a controller";
      return rowProblem(call) ?? different(call.body, ONE_OWNER, reference);
    case "released":
      return rowProblem(call) ?? ownedProblem(contract, reference, isOwn, call) ?? different(call.body, ONE_OWNER, { uid: owner.uid });
    case "owned":
      return rowProblem(call) ?? ownedProblem(contract, reference, isOwn, call);
    default:
      return contract.of satisfies never;
  }
}

/** Returns a problem if the body has a namespace other than the request's. A body may omit it. */
function foreignNamespace({ namespace, body }: BoundCall): string | undefined {
  const named = valueAt(body, "/metadata/namespace");
  return named === undefined || named === namespace ? undefined : "/metadata/namespace is not the owner's";
}

/** The uid in an object, in the preconditions of a delete, or in the test at the beginning of a JSON patch. */
function uidIn(body: object): unknown {
  return valueAt(body, "/metadata/uid") ?? valueAt(body, "/uid") ?? valueAt(body, "/0/value");
}

function rowProblem({ namespace, name, body, row }: BoundCall): string | undefined {
  if (row === undefined) return "the cache has no row of the object";
  if (row.namespace !== namespace) return "its row is of another namespace";
  if (row.name !== name) return "its row has another name";
  return uidIn(body) === row.uid ? undefined : "its row has another uid";
}

/**
 * Why the object's row does not show the run's owner as its controller. As upstream, a ReplicaSet's owner is compared by uid alone, and the
 * owner of a pod, or of a user controller's object, by the whole owner reference.
 */
function ownedProblem(
  { resource }: ContractRow<string>,
  reference: { readonly kind: string; readonly name: string; readonly uid: string },
  isOwn: boolean,
  { row }: BoundCall,
): string | undefined {
  const controller = row?.controller;
  if (controller === undefined) return "its row names no controller";
  const isOwner =
    controller.uid === reference.uid &&
    ((resource !== "pods" && !isOwn) || (controller.kind === reference.kind && controller.name === reference.name));
  return isOwner ? undefined : "its row names another controller";
}

function different(body: object, at: string, wanted: Readonly<Record<string, string>>): string | undefined {
  const field = Object.keys(wanted).find((each) => valueAt(body, `${at}/${each}`) !== wanted[each]);
  return field === undefined ? undefined : `${at}/${field} is not the owner's`;
}
