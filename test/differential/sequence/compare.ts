/** Compares two runs of one script: the values that must be equal, and their times. */
import { refusals, type Difference } from "./refusals.ts";
import type { Script } from "./script.ts";
import type { Line, Scenario } from "./scenario.ts";
import { secondsOf } from "./words.ts";

export interface Played {
  readonly lines: readonly Line[];
  readonly state: readonly string[];
  readonly events: ReadonlyMap<string, number>;
}

export async function played(scenario: Scenario): Promise<Played> {
  return {
    lines: scenario.lines,
    state: await scenario.state(["deployments", "replicasets", "replicationcontrollers"]),
    events: scenario.events(),
  };
}

/** Returns the differences between two runs; empty if there are none. */
export function differencesOf(script: Script, upstream: Played, ours: Played): readonly Difference[] {
  return [
    ...writes(script, upstream.lines, ours.lines),
    ...statuses(script, upstream.lines, ours.lines),
    ...refusals(script, upstream.lines, ours.lines),
    ...linesApart(
      "at the end",
      upstream.state,
      ours.state.map((line) => upstream.state.find((theirs) => isAlike(theirs, line)) ?? line),
    ),
    ...linesApart("told", toldOf(upstream).filter(isToldByBoth(toldOf(ours))), toldOf(ours)),
    ...linesApart("told in order", toldInOrder(upstream), toldInOrder(ours)),
  ];
}

/**
 * Compares the n-th writes of each kind. Ours does not wait for the events of its own writes. Upstream does, and syncs again only after a
 * back-off of similar length.
 */
function writes(
  { podsLagMs, apartMs, asleepFromMs = Infinity }: Script,
  upstream: readonly Line[],
  ours: readonly Line[],
): readonly Difference[] {
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
      a.every((atMs, i) => {
        const mineMs = b[i] ?? 0;
        return Math.min(atMs, mineMs) > asleepFromMs || (mineMs - atMs <= apartMs && atMs - mineMs <= apartMs + 2 * podsLagMs);
      });
    return isAlike ? [] : [{ about: text, text: `${text}\n    upstream at ${secondsOf(a)}\n    ours at     ${secondsOf(b)}` }];
  });
}

/**
 * Compares the statuses at each time at which neither side has written one for a while; shorter statuses are random. While writes are
 * rejected, upstream reports available pods only with the next retry: its queue stores one time per key, so a retry replaces the timer.
 */
function statuses(
  { podsLagMs, apartMs, endMs, acts, asleepFromMs = endMs }: Script,
  upstream: readonly Line[],
  ours: readonly Line[],
): readonly Difference[] {
  const all = [...upstream, ...ours].filter(({ kind }) => kind === "status");
  const calmMs = apartMs + podsLagMs;
  return [...Map.groupBy(all, ({ object }) => object)].flatMap(([object, written]) => {
    const times = [...new Set(written.map(({ atMs }) => atMs))].toSorted((a, b) => a - b);
    const calm = times
      .map((atMs) => atMs + calmMs)
      .filter((atMs) => atMs < asleepFromMs && !times.some((at) => at > atMs - calmMs && at <= atMs));
    const at = (lines: readonly Line[], atMs: number): string =>
      lines.findLast((line) => line.kind === "status" && line.object === object && line.atMs <= atMs)?.text ?? "none";
    return calm.flatMap((atMs) => {
      const [a, b] = [at(upstream, atMs), at(ours, atMs)];
      const isRefused = acts.findLast((act) => (act.kind === "refuse" || act.kind === "heal") && act.atMs <= atMs)?.kind === "refuse";
      return isAlike(a, b) || (isRefused && available(b) > available(a) && withoutAvailable(a) === withoutAvailable(b))
        ? []
        : [
            {
              about: `status of ${object} at ${Math.round(atMs / 1000)} ${b}`,
              text: `status of ${object} at ${secondsOf([atMs])}\n    upstream ${a}\n    ours     ${b}`,
            },
          ];
    });
  });
}

/**
 * Returns whether two statuses are equal or differ only in the Progressing condition: one side saw progress in between, and the other still
 * reports the end of the previous rollout.
 */
function isAlike(a: string, b: string): boolean {
  if (a === b) return true;
  const [of, or] = [PROGRESS.exec(a)?.groups, PROGRESS.exec(b)?.groups];
  const hasEnded = [of, or].filter((progress) => progress?.["reason"] === "NewReplicaSetAvailable").length === 1;
  return hasEnded && of?.["name"] !== or?.["name"] && withoutProgress(a) === withoutProgress(b);
}

const PROGRESS = /\{"message":"[^"]*?\\"(?<name>[^"]+)\\"[^"]*","reason":"(?<reason>\w+)","status":"\w+","type":"Progressing"\}/;
/** The condition that changed last comes last, so the order of two conditions may differ. */
const withoutProgress = (status: string): string => status.replace(PROGRESS, "").replace(/"conditions":\[,|,\]/, "");
const AVAILABLE = /"availableReplicas":(\d+),/;
const available = (status: string): number => Number(AVAILABLE.exec(status)?.[1] ?? 0);
const withoutAvailable = (status: string): string => status.replace(AVAILABLE, "");

/**
 * Counts Events by text. After ten messages of one reason, the correlator combines further ones; upstream then remembers nine arbitrary
 * messages (event-correlator.ts ER2), so which ones count as new is random. All Events of that reason are then counted together. Rejections
 * are compared separately.
 */
function toldOf({ events }: Played): readonly string[] {
  const reasons = Map.groupBy(events, ([text]) => text.replace(COMBINED, "").split(" ").slice(0, REASON_WORDS).join(" "));
  return [...reasons].flatMap(([reason, all]) =>
    all.some(([text]) => text.includes(COMBINED))
      ? [`${reason} (${all.reduce((sum, [, count]) => sum + count, 0)} of any kind)`]
      : all.map(([text, count]) => (text.includes(" Warning ") ? text : `${text} (${count})`)),
  );
}

/** Omits rejections that only upstream reports: ours immediately retries a create after a 5xx response. */
function isToldByBoth(ours: readonly string[]): (line: string) => boolean {
  return (line) => !/ Warning FailedCreate Error creating: (?:Internal error|.*ServiceUnavailable)/.test(line) || ours.includes(line);
}

/** Returns the first Events of a Deployment, up to the first combined one. Rejections are compared separately, by their time. */
function toldInOrder({ events }: Played): readonly string[] {
  const all = [...events.keys()].filter((text) => text.startsWith("Deployment") && !text.includes(" Warning "));
  const end = all.findIndex((text) => text.includes(COMBINED));
  return [all.slice(0, end === -1 ? all.length : end).join(", ")];
}

const COMBINED = "(combined from similar events): ";
/** Number of words that identify an Event: kind, name, type and reason. */
const REASON_WORDS = 4;

function linesApart(what: string, upstream: readonly string[], ours: readonly string[]): readonly Difference[] {
  const only = (who: string, some: readonly string[], others: readonly string[]): readonly Difference[] =>
    [...Map.groupBy(some, (line) => line)].flatMap(([line, all]) => {
      const surplus = all.length - others.filter((other) => other === line).length;
      const text = `${what}, ${who}: ${line}${surplus > 1 ? ` (${surplus})` : ""}`;
      return surplus > 0 ? [{ about: text, text }] : [];
    });
  return [...only("upstream alone", upstream, ours), ...only("ours alone", ours, upstream)];
}
