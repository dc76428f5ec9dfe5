/** Applies the deadline of a probe (PR1), and handles invalid requests (PR2) and aborts (PR4). */
import type { ProbeOutcome } from "../ports/prober.ts";
import { cut } from "./output.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Maximum delay of a Node.js timer; a longer timer fires immediately. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export interface Limits {
  readonly timeoutMs: number;
  /** Aborts when the outcome is no longer needed. */
  readonly signal: AbortSignal | undefined;
}

/** Calls `run` with a signal that aborts after the timeout or together with `signal`. If `run` throws, the request is invalid. */
export async function within({ timeoutMs, signal }: Limits, run: (signal: AbortSignal) => Promise<ProbeOutcome>): Promise<ProbeOutcome> {
  const end = new AbortController();
  const onAbort = (): void => end.abort();
  const timer = setTimeout(onAbort, Math.min(timeoutMs, TIMER_MS_MAX));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    signal?.throwIfAborted();
    const outcome = await run(end.signal);
    return signal?.aborted ? { result: "error", output: "probe aborted" } : outcome;
  } catch (error) {
    return { result: "error", output: cut(messageOf(error)) };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
