/** Binds a call to its run (GW4–GW8 of gateway.ts): pure comparisons, each with the text of its rejection. */
import { isEventNameOf } from "@deltaloop/kube/events";
import { CONTROLLER_INFO, RESOURCES } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
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

/** The first broken rule, or undefined. Names paths and fields, never a value. */
export function bindingProblem(contract: ContractRow, controller: Controller, owner: RunOwner, call: BoundCall): string | undefined {
  if (owner.namespace === "" || owner.name === "" || owner.uid === "") return "the run has no owner";
  if (call.namespace !== owner.namespace) return "the request's namespace is not the owner's";
  const { apiVersion, kind } = RESOURCES[CONTROLLER_INFO[controller].primary];
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
      return different(call.body, "/metadata", { uid: owner.uid });
    case "orphan":
      if (call.row?.controller !== undefined) return "its row names a controller";
      return rowProblem(owner, call) ?? different(call.body, ONE_OWNER, reference);
    case "released":
      return rowProblem(owner, call) ?? ownedProblem(contract, reference, call) ?? different(call.body, ONE_OWNER, { uid: owner.uid });
    case "owned":
      return rowProblem(owner, call) ?? ownedProblem(contract, reference, call);
    default:
      return contract.of satisfies never;
  }
}

/** A body may omit its namespace; otherwise it must equal the request's. */
function foreignNamespace({ namespace, body }: BoundCall): string | undefined {
  const named = valueAt(body, "/metadata/namespace");
  return named === undefined || named === namespace ? undefined : "/metadata/namespace is not the owner's";
}

function rowProblem(owner: RunOwner, { name, body, row }: BoundCall): string | undefined {
  if (row === undefined) return "the cache has no row of the object";
  if (row.namespace !== owner.namespace) return "its row is of another namespace";
  if (row.name !== name) return "its row has another name";
  return (valueAt(body, "/metadata/uid") ?? valueAt(body, "/uid")) === row.uid ? undefined : "its row has another uid";
}

/**
 * Why the object's row does not show the run's owner as its controller. As upstream, a ReplicaSet's owner is compared by uid alone, a pod's
 * by the whole owner reference.
 */
function ownedProblem(
  { resource }: ContractRow,
  reference: { readonly kind: string; readonly name: string; readonly uid: string },
  { row }: BoundCall,
): string | undefined {
  const controller = row?.controller;
  if (controller === undefined) return "its row names no controller";
  const isOwner =
    controller.uid === reference.uid && (resource !== "pods" || (controller.kind === reference.kind && controller.name === reference.name));
  return isOwner ? undefined : "its row names another controller";
}

function different(body: object, at: string, wanted: Readonly<Record<string, string>>): string | undefined {
  const field = Object.keys(wanted).find((each) => valueAt(body, `${at}/${each}`) !== wanted[each]);
  return field === undefined ? undefined : `${at}/${field} is not the owner's`;
}
