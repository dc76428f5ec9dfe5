import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 100;

/**
 * Polls until `look` returns something other than undefined and false. @throws after `timeoutMs`, with the last error
 * of `look`
 */
export async function eventually<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 30_000,
): Promise<T> {
  const giveUpAt = performance.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
      last = undefined;
    } catch (error) {
      last = error; // an API server that restarts refuses connections for a while
    }
    if (performance.now() > giveUpAt) throw new Error(`timed out after ${timeoutMs / 1000} s: ${what}`, { cause: last });
    await sleep(POLL_MS);
  }
}
