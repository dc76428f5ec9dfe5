import { messageOf } from "@deltaloop/kube/objects";
import { CriError } from "../../ports/cri-error.ts";

/** Formats the runtime's error as Go prints gRPC errors (node-agent §8). */
export function criErrorText(error: unknown): string {
  return error instanceof CriError ? `rpc error: code = ${error.code} desc = ${error.message}` : messageOf(error);
}

/** Formats the error of a pull; omits the code Unknown. Source: cri-client pkg/remote_image.go pullImageV1. */
export function pullErrorText(error: unknown): string {
  return error instanceof CriError && error.code === "Unknown" ? error.message : criErrorText(error);
}
