/** The text of a verdict: at most 25 lines of 80 columns, the cause within the first five. */
import { printable } from "@deltaloop/base/output";
import type { Explained, SpecChange, Subject, Verdict } from "@deltaloop/replay/explain";
import { counted } from "../output/counted.ts";
import { shortened } from "../output/terminal.ts";
import { objectName } from "./subject.ts";

const [COLUMNS, LINES_MAX, INDENT, CAUSE_INDENT] = [80, 25, 10, 12];
/** Items beyond these limits are only counted. */
const [CHANGES_MAX, OBJECTS_MAX, HELP_MAX, OTHERS_MAX] = [4, 3, 3, 3];

/** Formats a verdict. @param options.recorded whether it is from a capture instead of a running cluster */
export function verdictText(verdict: Verdict, { recorded = false } = {}): string {
  const whole = linesOfVerdict(verdict, recorded);
  // The help at the end is more important than what a controller does after a wait.
  const waits = verdict.waits.map(({ outcome: _, ...wait }) => wait);
  return (whole.length <= LINES_MAX ? whole : linesOfVerdict({ ...verdict, waits }, recorded))
    .slice(0, LINES_MAX)
    .map((line) => `${shortened(printable(line), COLUMNS)}\n`)
    .join("");
}

function linesOfVerdict(verdict: Verdict, recorded: boolean): readonly string[] {
  const { findings, changes, waits, atMs } = verdict;
  const clock = clockOf(atMs);
  const [first, ...rest] = findings.filter(({ level }) => level === "cause");
  const others = [...rest, ...findings.filter(({ level }) => level === "effect")];
  return [
    ...wrapped(headText(verdict, clock), COLUMNS),
    ...(first === undefined ? noCause(verdict) : causeLines(first, clock)),
    ...section("Changed", [
      ...noChangeLines(verdict, clock),
      ...changeLines(changes, clock),
      ...deletedLines(verdict, clock),
      ...elsewhereLines(verdict, clock),
    ]),
    ...section("Effect", [`${effectText(verdict)}${lowestText(verdict, clock)}`]),
    ...section(
      "Waits for",
      waits.map(
        ({ words, outcome, untilMs }) =>
          `${words}${untilMs === undefined ? "" : untilMs < atMs ? `, due since ${clock(untilMs)}` : ` by ${clock(untilMs)}`}${outcome === undefined ? "" : `; ${outcome}`}`,
      ),
    ),
    ...section("Next", first?.words.next === undefined || verdict.subject.resource === "pods" ? [] : [first.words.next]),
    ...section("Try", first?.words.help?.slice(0, HELP_MAX) ?? []),
    ...section(
      "Also",
      most(
        others.map(({ words, objects }) => `${words.cause}${objectsText(objects)}`),
        OTHERS_MAX,
      ),
    ),
    ...(first === undefined && verdict.health !== "complete" ? section("Unknown", unknownLines(verdict, recorded)) : []),
  ];
}

function headText({ subject, health, revision, atMs }: Verdict, clock: Clock): string {
  const of = revision === undefined ? "" : `, revision ${revision}`;
  return `${objectName(subject.resource, subject.name)} -n ${subject.namespace}: ${health.toUpperCase()}${of}, at ${clock(atMs)}`;
}

function causeLines({ words, evidence, objects, since, confidence }: Explained, clock: Clock): readonly string[] {
  return [
    ...section("Cause", [`${words.cause} (${confidence})`]),
    ...section("Evidence", [`${evidence.join("; ")}${objectsText(objects)}${since === undefined ? "" : `, since ${clock(since)}`}`]),
  ];
}

function noCause({ health, findings, waits: later }: Verdict): readonly string[] {
  if (health === "complete") return [];
  const waits = findings.filter(({ level }) => level === "wait");
  if (waits.length > 0)
    return section(
      "Cause",
      waits.map(({ words, objects }) => `${words.cause}${objectsText(objects, "; waiting for: ")}`),
    );
  return section("Cause", [
    health !== "progressing"
      ? "none found in what was read"
      : later.some(({ kind }) => kind === "ended")
        ? "none: old pods are terminating"
        : "none found: it progresses",
  ]);
}

function unknownLines({ unknown, notObservable }: Verdict, recorded: boolean): readonly string[] {
  return [
    ...(unknown.length > 0 ? [`${recorded ? "not recorded" : "not read"}: ${unknown.join(", ")}`] : []),
    ...(notObservable.length > 0 ? [`not observable without a capture: ${notObservable.join(", ")}`] : []),
  ];
}

function objectsText(objects: readonly string[], before = " on "): string {
  if (objects.length === 0) return "";
  const more = objects.length - OBJECTS_MAX;
  return `${before}${objects.slice(0, OBJECTS_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Differences of fields whose values are unknown. */
const SPOKEN = new Set(["added", "removed", "changed"]);

/** One group of lines per request: time and writer, then the fields that it changed. */
function changeLines(changes: readonly SpecChange[], clock: Clock): readonly string[] {
  const groups = Map.groupBy(changes, (change) => requestText(change, clock));
  const texts = [...groups].flatMap(([request, [first, ...others]]): readonly string[] => {
    if (first === undefined) return [];
    if (others.length === 0) return [changeText(first, clock)];
    return [
      `${request}:`,
      ...most(
        [first, ...others].map((change) => `- ${fieldText(change)}`),
        CHANGES_MAX,
      ),
    ];
  });
  return most(texts, CHANGES_MAX + 1);
}

function noChangeLines({ noChange }: Verdict, clock: Clock): readonly string[] {
  if (noChange === undefined) return [];
  const { sinceMs, isCreation, completeRevision } = noChange;
  return [
    completeRevision === undefined
      ? `nothing in this workload since ${isCreation ? "its creation at " : ""}${clock(sinceMs)}`
      : `nothing since revision ${completeRevision} was complete at ${clock(sinceMs)}`,
  ];
}

function elsewhereLines({ elsewhere }: Verdict, clock: Clock): readonly string[] {
  if (elsewhere === undefined) return [];
  const { object, atMs, manager, changes } = elsewhere;
  const [first, ...others] = changes;
  const more = others.length === 0 ? "" : ` and ${counted(others.length, "other field")}`;
  const what = first === undefined ? " was created" : `: ${fieldText(first)}${more}`;
  return [`also in the namespace: ${object}${what} ${requestText(first ?? { field: "", atMs, ...(manager && { manager }) }, clock)}`];
}

function deletedLines({ deletedPods }: Verdict, clock: Clock): readonly string[] {
  if (deletedPods === undefined) return [];
  const { objects, firstMs, lastMs, controller } = deletedPods;
  const [only, ...others] = objects;
  const pods = others.length === 0 ? `${only}` : counted(objects.length, "pod");
  const [first, last] = [clock(firstMs), clock(lastMs)];
  return [`${pods} deleted ${first === last ? `at ${first}` : `from ${first} to ${last}`} (not by its ${controller})`];
}

export function changeText(change: SpecChange, clock: Clock): string {
  return `${fieldText(change)} ${requestText(change, clock)}`;
}

function fieldText({ field, from, to }: SpecChange): string {
  if (from !== undefined) return `${field} ${from} → ${to ?? "removed"}`;
  return `${field} ${to === undefined ? "removed" : SPOKEN.has(to) ? to : `added: ${to}`}`;
}

function requestText({ atMs, manager, user, completedRevision }: SpecChange, clock: Clock): string {
  const by = user === undefined ? (manager === undefined ? "client not recorded" : `field manager ${manager}`) : `user ${user}`;
  const completed = completedRevision === undefined ? "" : `; revision ${completedRevision}, completed`;
  return `at ${atMs === undefined ? "an unknown time" : clock(atMs)} (${by}${completed})`;
}

export function effectText({ subject, effect: { wanted, available, ready, updated, total, isStale, isRecreated } }: Verdict): string {
  if (subject.resource === "pods") return ready > 0 ? "ready" : "not ready";
  const parts = [`${available} of ${counted(wanted, "pod")} available`];
  if (ready !== available) parts.push(`${ready} ready`);
  if (subject.resource === "deployments") parts.push(`${updated} updated`);
  if (total !== wanted) parts.push(`${total} in total`);
  if (isStale === true) parts.push("by the status of the previous generation");
  return `${parts.join(", ")}${isRecreated === true ? "; strategy Recreate deleted the old pods first" : ""}`;
}

function lowestText({ effect: { wanted, lowest } }: Verdict, clock: Clock): string {
  if (lowest === undefined) return "";
  const { available, times, lastMs } = lowest;
  return `; fell to ${available} of ${wanted} ${times === 1 ? `at ${clock(lastMs)}` : `(${times} times, last ${clock(lastMs)})`}`;
}

type Clock = (ms: number) => string;

/** `10:02:11Z`, with the date if it is on another day. */
export function clockOf(atMs: number): Clock {
  const textOf: Clock = (ms) => new Date(ms).toISOString().replace(/\.\d+/, "");
  return (ms) => (textOf(ms).slice(0, 10) === textOf(atMs).slice(0, 10) ? textOf(ms).slice(11) : textOf(ms));
}

function most(items: readonly string[], max: number): readonly string[] {
  return items.length <= max ? items : [...items.slice(0, max - 1), `and ${items.length - max + 1} more`];
}

/** One item per line; a long item continues on indented lines. */
function section(title: string, items: readonly string[]): readonly string[] {
  return items.flatMap((item, index) =>
    linesOf(item).map((line, part) => `${(index === 0 && part === 0 ? title : "").padEnd(INDENT)}${line}`),
  );
}

/** Wraps an item; a command of several lines can still be copied. */
function linesOf(item: string): readonly string[] {
  if (!item.startsWith("kubectl ")) return wrapped(item, COLUMNS - INDENT);
  return wrapped(item, COLUMNS - INDENT - 2).map((line, part, lines) => (part < lines.length - 1 ? `${line} \\` : line));
}

function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

/** Worst first: a line per workload, and at most three with its cause. */
export function worstText(verdicts: readonly Verdict[], all: boolean): string {
  const bad = verdicts.filter(({ health }) => health !== "complete");
  const shown = all ? verdicts : bad;
  const head = `${counted(verdicts.length, "workload")}: ${bad.length === 0 ? "all complete" : `${bad.length} not complete`}\n`;
  const lines = shown.flatMap((verdict) => {
    const { subject, health, effect, findings, waits } = verdict;
    const why = findings[0]?.words.cause ?? (waits[0] && `waits for ${waits[0].words}`);
    const object = `${objectName(subject.resource, subject.name)} -n ${subject.namespace}`;
    const text = `${health.padEnd(11)} ${effect.available}/${effect.wanted}  ${object}`;
    const [one = "", two = "", ...more] = why === undefined ? [] : wrapped(why, COLUMNS - CAUSE_INDENT);
    return [text, ...[one, two, more.join(" ")].filter((line) => line !== "").map((line) => `${" ".repeat(CAUSE_INDENT)}${line}`)];
  });
  return head + lines.map((line) => `${shortened(printable(line), COLUMNS)}\n`).join("");
}

export function verdictJson({
  subject,
  atMs,
  findings,
  changes,
  noChange,
  elsewhere,
  deletedPods,
  waits,
  effect,
  ...rest
}: Verdict): object {
  const at = (ms: number | undefined): string | undefined => (ms === undefined ? undefined : new Date(ms).toISOString());
  const { lowest, ...counts } = effect;
  const changesJson = (all: readonly SpecChange[]): readonly object[] => all.map(({ atMs: ms, ...change }) => ({ at: at(ms), ...change }));
  return {
    ...{ kind: "verdict", subject, at: at(atMs), ...rest },
    effect: { ...counts, ...(lowest && { lowest: { available: lowest.available, times: lowest.times, last: at(lowest.lastMs) } }) },
    findings: findings.map(({ since, rank: _, words, ...finding }) => ({ ...finding, since: at(since), ...words })),
    changes: changesJson(changes),
    ...(noChange && {
      noChange: {
        since: at(noChange.sinceMs),
        ...{ isCreation: noChange.isCreation, completeRevision: noChange.completeRevision },
      },
    }),
    ...(elsewhere && { elsewhere: { ...elsewhere, atMs: undefined, at: at(elsewhere.atMs), changes: changesJson(elsewhere.changes) } }),
    ...(deletedPods && {
      deletedPods: {
        ...{ objects: deletedPods.objects, controller: deletedPods.controller },
        ...{ first: at(deletedPods.firstMs), last: at(deletedPods.lastMs) },
      },
    }),
    waits: waits.map(({ untilMs, ...wait }) => ({ ...wait, until: at(untilMs) })),
  };
}

export function goneText({ resource, namespace, name }: Subject, atMs: number): string {
  return `${printable(`${objectName(resource, name)} -n ${namespace}`)}: deleted, at ${new Date(atMs).toISOString().slice(11, 19)}Z\n`;
}
