/**
 * A container did not start, for a reason that its status shows (`ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerError`, …).
 * Normal; the next turn tries again.
 */
export class StartError extends Error {
  override readonly name = "StartError";
  readonly reason: string;
  /** Not before this is another try worth while. */
  readonly retryAtMs: number | undefined;

  constructor(reason: string, message: string, options: { readonly retryAtMs?: number; readonly cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.reason = reason;
    this.retryAtMs = options.retryAtMs;
  }
}
