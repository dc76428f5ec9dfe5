/** One deadline over all of a probe (PR1), and what cannot be asked at all (PR2). */
import type { ProbeOutcome } from "../../ports/prober.ts";
import { cut } from "./output.ts";
import { messageOf } from "../../api/errors.ts";

/** Node fires a longer timer at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** What `run` comes to; its signal is aborted after `timeoutMs`. What it throws is an error: the request could not be made. */
export async function within(timeoutMs: number, run: (signal: AbortSignal) => Promise<ProbeOutcome>): Promise<ProbeOutcome> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), Math.min(timeoutMs, TIMER_MS_MAX));
  try {
    return await run(deadline.signal);
  } catch (error) {
    return { result: "error", output: cut(messageOf(error)) };
  } finally {
    clearTimeout(timer);
  }
}
