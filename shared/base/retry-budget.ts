import type { Clock } from "./clock.ts";

/**
 * How long a call may wait before it is sent, and before it is repeated after a Retry-After. The client evaluates both functions before
 * each attempt, because lease renewals extend the budget.
 */
export interface RetryBudget {
  /** Returns whether a mutating call may be sent now. A sent call still has its request timeout. */
  mayStart(): boolean;
  /** The longest wait, in ms from now, after which a start may still be allowed. */
  waitMsMax(): number;
  /** Timeout of one attempt. Default: the adapter's. */
  readonly requestTimeoutMs?: number;
}

/** Returns a budget that ends at `untilMs` by `clock`. A call sent then still has its request timeout. */
export function retryBudgetUntil(clock: Pick<Clock, "now">, untilMs: number, requestTimeoutMs?: number): RetryBudget {
  return {
    mayStart: () => clock.now() <= untilMs,
    waitMsMax: () => Math.max(0, untilMs - clock.now()),
    ...(requestTimeoutMs !== undefined && { requestTimeoutMs }),
  };
}
