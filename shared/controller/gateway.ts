/**
 * The one door through which mutating calls leave (design decision 9).
 *
 * G1 what a controller's contract does not list is refused with a TerminalError before anything is sent.
 * G2 a request without the precondition its contract names is refused the same way.
 * G3 in shadow mode nothing is sent: the answer is `notSent`, and no Event leaves either.
 */
import type { KubeObject } from "../api/wire.ts";
import type { CreateRequest, DeleteRequest, PatchRequest } from "../ports/kube.ts";

export interface WriteGateway {
  readonly mode: "act" | "shadow";
  create(request: CreateRequest): Promise<Answer>;
  patch(request: PatchRequest): Promise<Answer>;
  delete(request: DeleteRequest): Promise<Answer>;
}

/** Refusals and missing answers are thrown as the writer throws them (shared/ports/errors.ts). */
export type Answer = { readonly kind: "stored"; readonly object: KubeObject | undefined } | { readonly kind: "notSent" };
