/** Two lives of one script: what must be alike, and how nearly. */
import type { Line, World } from "./world.ts";
import type { Script } from "./script.ts";

/** A doorbell that waits comes at a whole second, and the news that ring one linger for up to 100 ms. */
const APART_MS_MAX = 1_100;

export interface Played {
  readonly lines: readonly Line[];
  readonly state: readonly string[];
}

export async function played(world: World): Promise<Played> {
  return { lines: world.lines, state: await world.state(["replicasets", "replicationcontrollers"]) };
}

/** One line a difference; none: the lives are alike. */
export function differencesOf(script: Script, upstream: Played, ours: Played): readonly string[] {
  return [
    ...writes(script, upstream.lines, ours.lines),
    ...statuses(script, upstream.lines, ours.lines),
    ...refusals(script, upstream.lines, ours.lines),
    ...linesApart("at the end", upstream.state, ours.state),
  ];
}

/**
 * The n-th write of a kind is each other's n-th. Ours need not wait for news of its own writes; upstream
 * does, and looks again only after as long a back-off.
 */
function writes({ podsLagMs }: Script, upstream: readonly Line[], ours: readonly Line[]): readonly string[] {
  const timesOf = (lines: readonly Line[]): ReadonlyMap<string, readonly number[]> =>
    new Map(
      [
        ...Map.groupBy(
          lines.filter(({ kind }) => kind === "write"),
          ({ object, text }) => `${object}: ${text}`,
        ),
      ].map(([text, all]) => [text, all.map(({ atMs }) => atMs)]),
    );
  const [theirs, mine] = [timesOf(upstream), timesOf(ours)];
  return [...new Set([...theirs.keys(), ...mine.keys()])].flatMap((text) => {
    const [a, b] = [theirs.get(text) ?? [], mine.get(text) ?? []];
    const isAlike =
      a.length === b.length &&
      a.every((atMs, i) => (b[i] ?? 0) - atMs <= APART_MS_MAX && atMs - (b[i] ?? 0) <= APART_MS_MAX + 2 * podsLagMs);
    return isAlike ? [] : [`${text}\n    upstream at ${secondsOf(a)}\n    ours at     ${secondsOf(b)}`];
  });
}

/**
 * Whenever neither has written a status for a while both say the same; what stood for less is chance. While tries are refused,
 * pods become available in upstream's status with the next try: its queue keeps one time a key, so that a try forgets their timer.
 */
function statuses({ podsLagMs, endMs, acts }: Script, upstream: readonly Line[], ours: readonly Line[]): readonly string[] {
  const all = [...upstream, ...ours].filter(({ kind }) => kind === "status");
  const calmMs = APART_MS_MAX + podsLagMs;
  return [...Map.groupBy(all, ({ object }) => object)].flatMap(([object, written]) => {
    const times = [...new Set(written.map(({ atMs }) => atMs))].toSorted((a, b) => a - b);
    const calm = times.map((atMs) => atMs + calmMs).filter((atMs) => atMs < endMs && !times.some((at) => at > atMs - calmMs && at <= atMs));
    const at = (lines: readonly Line[], atMs: number): string =>
      lines.findLast((line) => line.kind === "status" && line.object === object && line.atMs <= atMs)?.text ?? "none";
    return calm.flatMap((atMs) => {
      const [a, b] = [at(upstream, atMs), at(ours, atMs)];
      const isRefused = acts.findLast((act) => (act.kind === "refuse" || act.kind === "heal") && act.atMs <= atMs)?.kind === "refuse";
      return a === b || (isRefused && available(b) > available(a) && withoutAvailable(a) === withoutAvailable(b))
        ? []
        : [`status of ${object} at ${secondsOf([atMs])}\n    upstream ${a}\n    ours     ${b}`];
    });
  });
}

const AVAILABLE = /"availableReplicas":(\d+),/;
const available = (status: string): number => Number(AVAILABLE.exec(status)?.[1] ?? 0);
const withoutAvailable = (status: string): string => status.replace(AVAILABLE, "");

/** Each try of a doubling back-off is as long after the last one as that was after the first, or so. */
const GAP_RATIO = [0.4, 2.3] as const;
/** Whole seconds of doorbells are nothing to that by then. */
const DOUBLES_AFTER_MS = 2_000;
/** How many more tries the first second may see on one side: news of its own failed status wake upstream once more. */
const FIRST_TRIES_APART_MAX = 4;

function refusals(script: Script, upstream: readonly Line[], ours: readonly Line[]): readonly string[] {
  return script.acts.flatMap((act, i) => {
    if (act.kind !== "refuse") return [];
    const endMs = script.acts.slice(i + 1).find(({ kind }) => kind === "heal" || kind === "refuse")?.atMs ?? script.endMs;
    const within = (lines: readonly Line[]): readonly number[] =>
      lines.filter(({ kind, atMs }) => kind === "refused" && atMs >= act.atMs && atMs < endMs).map(({ atMs }) => atMs);
    const [a, b] = [within(upstream), within(ours)];
    const report = `${act.verb} ${act.resource}, refused from ${secondsOf([act.atMs])} on\n    upstream at ${secondsOf(a)}\n    ours at     ${secondsOf(b)}`;
    const [firstA, firstB] = [a[0], b[0]];
    if (firstA === undefined || firstB === undefined) return a.length === b.length ? [] : [report];
    if (Math.abs(firstA - firstB) > APART_MS_MAX) return [report];
    if (act.times < 100) return a.length === b.length ? [] : [report];
    const firstSecond = (tries: readonly number[]): number => tries.filter((atMs) => atMs - (tries[0] ?? 0) < 1_000).length;
    if (Math.abs(firstSecond(a) - firstSecond(b)) > FIRST_TRIES_APART_MAX) return [report];
    if ([a, b].some((tries) => !doubles(tries, endMs))) return [report];
    return [];
  });
}

/** Pods that turn ready meanwhile, and are available later, wake upstream twice each time. */
const TIMERS_MAX = 4;

function doubles(tries: readonly number[], endMs: number): boolean {
  const [first = 0] = tries;
  const gaps = tries.map((atMs, i) => ({ sinceMs: atMs - first, gapMs: (tries[i + 1] ?? endMs) - atMs, isLast: i === tries.length - 1 }));
  const late = gaps.filter(({ sinceMs }) => sinceMs >= DOUBLES_AFTER_MS);
  const tooSoon = late.filter(({ sinceMs, gapMs, isLast }) => !isLast && gapMs < GAP_RATIO[0] * sinceMs);
  const ratioMax = tooSoon.length === 0 ? GAP_RATIO[1] : 2 * GAP_RATIO[1]; // each such try counts as a failure, too
  const tooLate = late.filter(({ sinceMs, gapMs, isLast }) => gapMs > ratioMax * sinceMs + (isLast ? APART_MS_MAX : 0));
  return tooSoon.length <= TIMERS_MAX && tooLate.length === 0;
}

function linesApart(what: string, a: readonly string[], b: readonly string[]): readonly string[] {
  const only = (some: readonly string[], others: readonly string[]): readonly string[] =>
    [...Map.groupBy(some, (line) => line)].flatMap(([line, all]) => {
      const surplus = all.length - others.filter((other) => other === line).length;
      return surplus > 0 ? [`${line}${surplus > 1 ? ` (${surplus})` : ""}`] : [];
    });
  return [...only(a, b).map((line) => `${what}, upstream alone: ${line}`), ...only(b, a).map((line) => `${what}, ours alone:     ${line}`)];
}

function secondsOf(times: readonly number[]): string {
  return times.length === 0 ? "no time" : times.map((atMs) => (atMs / 1000).toFixed(3)).join(" ");
}
