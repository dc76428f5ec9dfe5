/**
 * The only path for mutating calls (design decisions 9 and 15).
 *
 * GW1 a call that the controller's contract does not list is rejected with a TerminalError before it is sent.
 * GW2 a request without the precondition that its contract requires is rejected in the same way.
 * GW3 in shadow mode nothing is sent, Events included: the result is `notSent`.
 *
 * A call belongs to a run, and a run to one owner: (namespace, kind, name, uid). The kind is the controller's own. Whatever the cache
 * shows, these calls are rejected with a TerminalError that names paths and objects, never a value:
 * GW4 a request, row or body of a namespace other than the owner's.
 * GW5 a change of an object without a row, or whose row has another name or uid than the request.
 * GW6 a delete, release or change of an object whose row does not name the owner as its controller (a pod's: kind, name and uid;
 *    a ReplicaSet's: uid), and an adoption of an object whose row names any controller.
 * GW7 a create, adoption or release whose controller reference is not the owner's.
 * GW8 a status of an object other than the owner, and an Event about one, by its involvedObject or, for a count, by its name.
 */
import type { KubeObject } from "@deltaloop/kube/objects";
import type { CreateRequest, DeleteRequest, PatchRequest } from "@deltaloop/kube/client";

/** Creates the gateway of one run; no call is possible without a run. */
export interface WriteGateway {
  readonly mode: "act" | "shadow";
  forRun(owner: RunOwner): RunGateway;
}

/** The object of a run: namespace and name from its key, uid from its primary's row. */
export interface RunOwner {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export interface RunGateway {
  create(request: CreateRequest): Promise<Answer>;
  /** `row` is not needed for the owner's own status. */
  patch(request: PatchRequest, row?: SeenRow): Promise<Answer>;
  delete(request: DeleteRequest, row: SeenRow | undefined): Promise<Answer>;
}

/** An existing object, as the run's snapshot or a later response shows it. */
export interface SeenRow {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** The object's controller. The controller of a ReplicaSet may have any kind. */
  readonly controller?: { readonly kind: string; readonly name: string; readonly uid: string };
}

/** Errors of the writer (shared/kube/client/errors.ts) pass through for rejections and missing responses. */
export type Answer = { readonly kind: "stored"; readonly object: KubeObject | undefined } | { readonly kind: "notSent" };
