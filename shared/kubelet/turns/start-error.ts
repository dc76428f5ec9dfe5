/**
 * How long a turn waits for a step before it ends and leaves the step to run on (node-agent §18.7). Short, because a turn that waits
 * is deaf to what happens to its pod; the step's end brings the next one.
 */
export const TURN_MS = 2_000;

/** Reason of a StartError that ends the whole turn: the pod is to end. */
export const TERMINATING = "Terminating";

/**
 * A container did not start, for a reason that its status shows (`ImagePullBackOff`, `CrashLoopBackOff`, `CreateContainerError`, …).
 * Normal; the next turn tries again.
 */
export class StartError extends Error {
  override readonly name = "StartError";
  readonly reason: string;
  /** Not before this is another try worth while. */
  readonly retryAtMs: number | undefined;
  /** Nothing failed: a step goes on, and its end wakes the pod. */
  readonly running: boolean;

  constructor(
    reason: string,
    message: string,
    options: { readonly retryAtMs?: number; readonly running?: boolean; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.reason = reason;
    this.retryAtMs = options.retryAtMs;
    this.running = options.running === true;
  }
}
