/** A watch that stands still for a part of its events, as that of an API server whose own cache is behind. */
import type { Clock } from "../../../shared/base/clock.ts";
import { lineOf } from "../../../shared/kube/client/kube.ts";
import type { WatchFrame } from "../../../shared/kube/client/kube.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import type { Plan } from "./plans.ts";

export interface HoldBackOptions {
  readonly clock: Clock;
  readonly plan: Exclude<Plan, { readonly pattern: "crash" }> | undefined;
  /** The stream begins with the existing objects, which are no events. */
  readonly isListing: boolean;
  /** The number of events so far. */
  readonly number: () => number;
  readonly onEvent: (type: string, object: LiveObject) => void;
  readonly onHold: () => void;
}

/** Time after which the watch goes on although the later event has not happened, because the run took another course. */
const HELD_MS_MAX = 10_000;
const LISTED = "k8s.io/initial-events-end";

interface WatchLine {
  readonly type: string;
  readonly object: LiveObject;
}

export async function* holdBack(
  batches: AsyncIterable<readonly WatchFrame[]>,
  options: HoldBackOptions,
): AsyncGenerator<readonly string[]> {
  const { clock, plan, number, onEvent, onHold } = options;
  let { isListing } = options;
  let held: string[] | undefined;
  let untilMs = 0;
  const iterator = batches[Symbol.asyncIterator]();
  let next = iterator.next();
  try {
    for (;;) {
      const waits = new AbortController();
      const late =
        held &&
        clock.after(Math.max(0, untilMs - clock.now()), waits.signal).then(
          () => "late" as const,
          () => "late" as const,
        );
      const outcome = await Promise.race([next, ...(late ? [late] : [])]);
      waits.abort();
      if (outcome === "late") {
        if (held) yield held;
        held = undefined;
        continue;
      }
      if (outcome.done === true) return;
      next = iterator.next();
      const passed: string[] = [];
      for (const frame of outcome.value) {
        const line = lineOf(frame);
        const { type, object } = JSON.parse(line) as WatchLine; // lines of the API server
        const isEvent = !isListing && (type === "ADDED" || type === "MODIFIED" || type === "DELETED");
        if (line.includes(LISTED)) isListing = false;
        const at = isEvent ? number() : -1;
        if (isEvent) onEvent(type, object);
        if (isEvent && at === plan?.from) {
          onHold();
          [held, untilMs] = [[], clock.now() + HELD_MS_MAX];
        }
        (held ?? passed).push(line);
        if (held && isEvent && at === plan?.until) {
          passed.push(...(plan.pattern === "hidden" ? newest(held) : held));
          held = undefined;
        }
      }
      if (passed.length > 0) yield passed;
    }
  } finally {
    await iterator.return?.();
  }
}

/** The lines without events that a later one of the same object supersedes. */
function newest(lines: readonly string[]): readonly string[] {
  const parsed = lines.map((line) => JSON.parse(line) as WatchLine); // lines of the API server
  const keyOf = ({ type, object: { metadata } }: WatchLine): string =>
    type === "BOOKMARK" ? "" : `${metadata.namespace}/${metadata.name}`;
  return lines.filter((_, at) => {
    const key = keyOf(parsed[at] as WatchLine); // as many as lines
    return key === "" || !parsed.some((later, index) => index > at && keyOf(later) === key);
  });
}
