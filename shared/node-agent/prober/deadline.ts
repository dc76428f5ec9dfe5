/** One deadline over all of a probe (PR1), what cannot be asked at all (PR2), and what is given up (PR4). */
import type { ProbeOutcome } from "../ports/prober.ts";
import { cut } from "./output.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Node fires a longer timer at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export interface Limits {
  readonly timeoutMs: number;
  /** Nobody waits for the outcome any more. */
  readonly signal: AbortSignal | undefined;
}

/** What `run` comes to; its signal is aborted by either limit. What it throws is an error: the request could not be made. */
export async function within({ timeoutMs, signal }: Limits, run: (signal: AbortSignal) => Promise<ProbeOutcome>): Promise<ProbeOutcome> {
  const end = new AbortController();
  const onAbort = (): void => end.abort();
  const timer = setTimeout(onAbort, Math.min(timeoutMs, TIMER_MS_MAX));
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    signal?.throwIfAborted();
    const outcome = await run(end.signal);
    return signal?.aborted ? { result: "error", output: "given up" } : outcome;
  } catch (error) {
    return { result: "error", output: cut(messageOf(error)) };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
