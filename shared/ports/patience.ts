import type { Clock } from "./clock.ts";

/**
 * How long a call may be waited for before it is sent, and sent again after the server has asked for that. Both questions are
 * asked anew each time, because a lease is renewed meanwhile.
 */
export interface Patience {
  /** Whether a mutating call may be sent now. What is sent has the request timeout to land. */
  mayStart(): boolean;
  /** The longest wait, in ms from now, after which a start may still be allowed, whatever is renewed until then. */
  waitMsMax(): number;
  /** For one sending. Default: the adapter's own. */
  readonly requestTimeoutMs?: number;
}

/** Waits until `untilMs` by `clock` at most; a call sent then still has its request timeout. */
export function patienceUntil(clock: Pick<Clock, "now">, untilMs: number, requestTimeoutMs?: number): Patience {
  return {
    mayStart: () => clock.now() <= untilMs,
    waitMsMax: () => Math.max(0, untilMs - clock.now()),
    ...(requestTimeoutMs !== undefined && { requestTimeoutMs }),
  };
}
