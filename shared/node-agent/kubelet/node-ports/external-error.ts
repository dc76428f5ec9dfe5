import { KubeApiError, NotSentError, UnansweredError } from "@deltaloop/kube/client";
import { NodeFilesError } from "../../ports/node-files.ts";

/** Errors of files and the API server, which users or time resolve. */
export function isExternalError(error: unknown): error is Error {
  return (
    error instanceof NodeFilesError || error instanceof KubeApiError || error instanceof UnansweredError || error instanceof NotSentError
  );
}
