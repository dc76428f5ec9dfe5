/**
 * The one door through which mutating calls leave (design decisions 9 and 15).
 *
 * GW1 what a controller's contract does not list is refused with a TerminalError before anything is sent.
 * GW2 a request without the precondition its contract names is refused the same way.
 * GW3 in shadow mode nothing is sent: the answer is `notSent`, and no Event leaves either.
 *
 * A call belongs to a run, and a run to one owner: (namespace, kind, name, uid). The kind is the controller's own. Whatever the
 * cache made a decision believe, these are refused as well, with a TerminalError that names paths and objects, never a value:
 * GW4 a request, a row or a body of another namespace than the owner's.
 * GW5 a change of an object that no row shows, or whose row has another name or uid than the request means.
 * GW6 a delete, release or change of an object whose row does not name the owner as its controller (a pod's: kind, name and uid;
 *    a ReplicaSet's: uid), and an adoption of an object whose row names any controller.
 * GW7 a create or an adoption whose controller reference is not the owner's, and a release of another reference than the owner's.
 * GW8 a status of another object than the owner, and an Event about one: by its involvedObject, or, of one to be counted, its name.
 */
import type { KubeObject } from "@deltaloop/kube/objects";
import type { CreateRequest, DeleteRequest, PatchRequest } from "@deltaloop/kube/client";

/** It writes nothing by itself: there is no call without a run. */
export interface WriteGateway {
  readonly mode: "act" | "shadow";
  forRun(owner: RunOwner): RunGateway;
}

/** The object a run was started for: namespace and name of its key, the uid of its primary's row. */
export interface RunOwner {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

export interface RunGateway {
  create(request: CreateRequest): Promise<Answer>;
  /** The owner's own status needs no row. */
  patch(request: PatchRequest, row?: SeenRow): Promise<Answer>;
  delete(request: DeleteRequest, row: SeenRow | undefined): Promise<Answer>;
}

/** An object that exists already, as the run's snapshot or a later answer shows it. */
export interface SeenRow {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Its controller; a ReplicaSet's may be of any kind. */
  readonly controller?: { readonly kind: string; readonly name: string; readonly uid: string };
}

/** Refusals and missing answers are thrown as the writer throws them (shared/kube/client/errors.ts). */
export type Answer = { readonly kind: "stored"; readonly object: KubeObject | undefined } | { readonly kind: "notSent" };
