/**
 * Injected time.
 *
 * CL1 `now()` never goes back within one process.
 * CL2 `after(ms)` resolves no earlier than `ms` after the call by the same clock; with 0 or less, in a later turn of the event loop.
 * CL3 an aborted signal rejects the wait at once with the signal's reason and leaves no timer behind.
 */
export interface Clock {
  /** Returns whole milliseconds since the epoch. */
  now(): number;
  after(ms: number, signal?: AbortSignal): Promise<void>;
}
