/** Compares the retries of rejected writes: both sides must retry equally often, with similar delays. */
import type { Script } from "./script.ts";
import { secondsOf } from "./words.ts";
import type { Line } from "./scenario.ts";

export interface Difference {
  /** The kind of request, in a form that both sides share. */
  readonly about: string;
  readonly text: string;
}

/**
 * Permitted range of the time between two retries, relative to the time since the first one; the ratio of a doubling back-off is about 1.
 */
const GAP_RATIO = [0.4, 2.3] as const;
/** Time in ms after which the rounding of doorbells to whole seconds is negligible. */
const DOUBLES_AFTER_MS = 2_000;
/** Permitted difference in the number of retries within the first second: upstream syncs again for the event of its own failure status. */
const FIRST_TRIES_APART_MAX = 4;
/** Permitted number of early retries: a pod that becomes ready, and later available, enqueues upstream's key twice. */
const TIMERS_MAX = 4;

/** Compares permanent rejections per object; which objects a limited number of rejections hits is random. */
export function refusals(script: Script, upstream: readonly Line[], ours: readonly Line[]): readonly Difference[] {
  return script.acts.flatMap((act, i) => {
    if (act.kind !== "refuse") return [];
    const endMs = script.acts.slice(i + 1).find(({ kind }) => kind === "heal" || kind === "refuse")?.atMs ?? script.endMs;
    const isForGood = act.times >= 100;
    const within = (lines: readonly Line[]): ReadonlyMap<string, readonly Line[]> =>
      Map.groupBy(
        lines.filter(({ kind, atMs }) => kind === "refused" && atMs >= act.atMs && atMs < endMs),
        ({ object }) => (isForGood ? object : ""),
      );
    const [theirs, mine] = [within(upstream), within(ours)];
    return [...new Set([...theirs.keys(), ...mine.keys()])].flatMap((object) => {
      // an array of two
      const [a, b] = [theirs, mine].map((all) => (all.get(object) ?? []).map(({ atMs }) => atMs)) as [number[], number[]];
      if (isAlike(a, b, { isForGood, endMs, apartMs: script.apartMs })) return [];
      const about = `${act.verb} ${act.resource} ${object}, refused from ${secondsOf([act.atMs])} on`;
      return [{ about, text: `${about}\n    upstream at ${secondsOf(a)}\n    ours at     ${secondsOf(b)}` }];
    });
  });
}

interface While {
  readonly isForGood: boolean;
  readonly endMs: number;
  readonly apartMs: number;
}

function isAlike(upstream: readonly number[], ours: readonly number[], { isForGood, endMs, apartMs }: While): boolean {
  const [first, second] = [upstream[0], ours[0]];
  if (first === undefined || second === undefined) return upstream.length === ours.length;
  if (Math.abs(first - second) > apartMs) return false;
  if (!isForGood) return upstream.length === ours.length;
  const firstSecond = (tries: readonly number[]): number => tries.filter((atMs) => atMs - (tries[0] ?? 0) < 1_000).length;
  if (Math.abs(firstSecond(upstream) - firstSecond(ours)) > FIRST_TRIES_APART_MAX) return false;
  return [upstream, ours].every((tries) => doubles(tries, endMs, apartMs));
}

function doubles(tries: readonly number[], endMs: number, apartMs: number): boolean {
  const [first = 0] = tries;
  const gaps = tries.map((atMs, i) => ({ sinceMs: atMs - first, gapMs: (tries[i + 1] ?? endMs) - atMs, isLast: i === tries.length - 1 }));
  const late = gaps.filter(({ sinceMs }) => sinceMs >= DOUBLES_AFTER_MS);
  const tooSoon = late.filter(({ sinceMs, gapMs, isLast }) => !isLast && gapMs < GAP_RATIO[0] * sinceMs);
  const ratioMax = tooSoon.length === 0 ? GAP_RATIO[1] : 2 * GAP_RATIO[1]; // each early retry counts as a failure, too
  const tooLate = late.filter(({ sinceMs, gapMs, isLast }) => gapMs > ratioMax * sinceMs + (isLast ? apartMs : 0));
  return tooSoon.length <= TIMERS_MAX && tooLate.length === 0;
}
