/** The gRPC status names, as google.golang.org/grpc/codes spells them, in the order of their numbers (OK = 0 is no error). */
export const CRI_ERROR_CODES = [
  "Canceled",
  "Unknown",
  "InvalidArgument",
  "DeadlineExceeded",
  "NotFound",
  "AlreadyExists",
  "PermissionDenied",
  "ResourceExhausted",
  "FailedPrecondition",
  "Aborted",
  "OutOfRange",
  "Unimplemented",
  "Internal",
  "Unavailable",
  "DataLoss",
  "Unauthenticated",
] as const;

export type CriErrorCode = (typeof CRI_ERROR_CODES)[number];

/**
 * The runtime refused, or no answer came. Normal: what is gone between list and status is NotFound, a runtime that restarts is
 * Unavailable. The message is the runtime's own, without a code in front. Runtimes differ in the code of everything else
 * (containerd says Unknown for most), so only the predicates below are asked.
 */
export class CriError extends Error {
  override readonly name = "CriError";
  readonly code: CriErrorCode;

  constructor(code: CriErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export function isNotFound(error: unknown): boolean {
  return error instanceof CriError && error.code === "NotFound";
}

/** An older runtime does not know the verb: an ordinary answer, asked once per connection (node-agent §17). */
export function isUnimplemented(error: unknown): boolean {
  return error instanceof CriError && error.code === "Unimplemented";
}

/** Nobody answers on the socket, or the connection broke under the call: the call may have been executed. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof CriError && error.code === "Unavailable";
}

/** The time of the call, or of the command run by `execSync`, was up: the call may have been executed. */
export function isDeadlineExceeded(error: unknown): boolean {
  return error instanceof CriError && error.code === "DeadlineExceeded";
}
