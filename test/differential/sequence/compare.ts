/** Two lives of one script: what must be alike, and how nearly. */
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

/** None: the lives are alike. */
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
 * The n-th write of a kind is each other's n-th. Ours need not wait for news of its own writes; upstream
 * does, and looks again only after as long a back-off.
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
 * Whenever neither has written a status for a while both say the same; what stood for less is chance. While tries are refused,
 * pods become available in upstream's status with the next try: its queue keeps one time a key, so that a try forgets their timer.
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

/** Also but for what is said of progress, where one saw some on the way and the other still says how the rollout before it ended. */
function isAlike(a: string, b: string): boolean {
  if (a === b) return true;
  const [of, or] = [PROGRESS.exec(a)?.groups, PROGRESS.exec(b)?.groups];
  const hasEnded = [of, or].filter((progress) => progress?.["reason"] === "NewReplicaSetAvailable").length === 1;
  return hasEnded && of?.["name"] !== or?.["name"] && withoutProgress(a) === withoutProgress(b);
}

const PROGRESS = /\{"message":"[^"]*?\\"(?<name>[^"]+)\\"[^"]*","reason":"(?<reason>\w+)","status":"\w+","type":"Progressing"\}/;
/** Which of two conditions stands first hangs on which was changed last. */
const withoutProgress = (status: string): string => status.replace(PROGRESS, "").replace(/"conditions":\[,|,\]/, "");
const AVAILABLE = /"availableReplicas":(\d+),/;
const available = (status: string): number => Number(AVAILABLE.exec(status)?.[1] ?? 0);
const withoutAvailable = (status: string): string => status.replace(AVAILABLE, "");

/**
 * How often what was told. Once ten messages of one reason have come those that follow are combined, of upstream's any nine are
 * remembered (event-correlator.ts ER2), and what counts as new is chance: then all of that reason are counted together.
 * How often something was refused is compared apart.
 */
function toldOf({ events }: Played): readonly string[] {
  const reasons = Map.groupBy(events, ([text]) => text.replace(COMBINED, "").split(" ").slice(0, REASON_WORDS).join(" "));
  return [...reasons].flatMap(([reason, all]) =>
    all.some(([text]) => text.includes(COMBINED))
      ? [`${reason} (${all.reduce((sum, [, count]) => sum + count, 0)} of any kind)`]
      : all.map(([text, count]) => (text.includes(" Warning ") ? text : `${text} (${count})`)),
  );
}

/** A create that was answered 5xx is sent again at once by ours, so upstream alone may report its refusal. */
function isToldByBoth(ours: readonly string[]): (line: string) => boolean {
  return (line) => !/ Warning FailedCreate Error creating: (?:Internal error|.*ServiceUnavailable)/.test(line) || ours.includes(line);
}

/** The first Events of a Deployment, until the first combined one; refusals are recorded when they occur. */
function toldInOrder({ events }: Played): readonly string[] {
  const all = [...events.keys()].filter((text) => text.startsWith("Deployment") && !text.includes(" Warning "));
  const end = all.findIndex((text) => text.includes(COMBINED));
  return [all.slice(0, end === -1 ? all.length : end).join(", ")];
}

const COMBINED = "(combined from similar events): ";
/** Kind, name, type and reason. */
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
