import { UnansweredError } from "../client/errors.ts";

export interface Deadline {
  readonly signal: AbortSignal;
  clear(): void;
}

export function unansweredWithin(ms: number): UnansweredError {
  return new UnansweredError(`no response within ${ms} ms`);
}

/** A signal that aborts with the caller's reason, or with `late()` after `ms`. */
export function createDeadline(ms: number, caller: AbortSignal | undefined, late: () => Error = () => unansweredWithin(ms)): Deadline {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(late()), ms);
  const onAbort = (): void => controller.abort(caller?.reason);
  if (caller?.aborted === true) onAbort();
  caller?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    clear() {
      clearTimeout(timer);
      caller?.removeEventListener("abort", onAbort);
    },
  };
}
