/** What the runtime refused with, as Go prints what gRPC brings (node-agent §8). */
import { messageOf } from "@deltaloop/kube/objects";
import { CriError } from "../../ports/cri-error.ts";

export function criErrorText(error: unknown): string {
  return error instanceof CriError ? `rpc error: code = ${error.code} desc = ${error.message}` : messageOf(error);
}

/** Of a pull: a code that says nothing is left out. Source: cri-client pkg/remote_image.go pullImageV1. */
export function pullErrorText(error: unknown): string {
  return error instanceof CriError && error.code === "Unknown" ? error.message : criErrorText(error);
}
