/** The gRPC status names of google.golang.org/grpc/codes, in the order of their numbers, which start at 1 here. */
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
 * The runtime returned an error, or no response came. NotFound is normal between list and status; Unavailable is normal during a restart.
 * The message is the runtime's own, without its code. For other errors, runtimes choose different codes (containerd mostly uses Unknown),
 * so callers use only the predicates below.
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

/** Whether an older runtime does not implement the method, which is a normal response (node-agent §17). */
export function isUnimplemented(error: unknown): boolean {
  return error instanceof CriError && error.code === "Unimplemented";
}

/** Whether the runtime is unreachable, or the connection broke during the call. In the second case, the call may have taken effect. */
export function isUnavailable(error: unknown): boolean {
  return error instanceof CriError && error.code === "Unavailable";
}

/** Whether the deadline of the call, or of the `execSync` command, has passed. The call may have taken effect. */
export function isDeadlineExceeded(error: unknown): boolean {
  return error instanceof CriError && error.code === "DeadlineExceeded";
}
