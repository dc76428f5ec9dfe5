/** The history of an object (changes, syncs and decisions), as text and as JSON. */
import { CONTROLLER_INFO } from "@deltaloop/kube/objects";
import type { Reason, TraceLine } from "@deltaloop/controllers/kit";
import { LATER_MS } from "@deltaloop/replay/explain";
import type { Recorded, Entry, Subject } from "@deltaloop/replay/explain";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { alikeFrom, changeText } from "./change-text.ts";
import { describeTrace } from "./describe.ts";
import { since } from "../command/moment.ts";
import { printable } from "@deltaloop/base/output";
import { objectName } from "./subject.ts";
import { idleInWords, reasonInWords, sectionOf } from "./reason-words.ts";

const INDENT = " ".repeat(23);

export interface Span {
  readonly startMs: number;
  readonly endMs: number;
}

/** Explains how to read the steps. */
export const LEGEND =
  "Steps: each change is printed with its client in brackets. Each sync is printed with its new reasons (and their sections of\n" +
  "docs/internals/spec), then → the decision of deltaloop's controller, then what the recorded cluster did.\n" +
  "A sync that runs before all events of an earlier write have arrived decides on the rest again.\n\n";

export function heading({ resource, namespace, name }: Subject, { startMs, endMs }: Span): string {
  const [begin, end] = [startMs, endMs].map((ms) => new Date(ms).toISOString());
  return `${printable(`${objectName(resource, name)} -n ${namespace}`)}, from ${begin} to ${end}\n\n`;
}

/** One block per sync, and one line per change. */
export function storyText(entries: readonly Entry[], { startMs, endMs }: Span, all: boolean): readonly string[] {
  const folds = foldsIn(entries);
  const known = new Map<string, ReadonlySet<string>>();
  const refusals = new Set<string>();
  const texts: string[] = [];
  for (let index = 0; index < entries.length; index++) {
    const entry = entries[index];
    if (entry === undefined) continue;
    const prefix = `${new Date(entry.atMs).toISOString().slice(11, 23)} ${since(entry.atMs, startMs).padStart(9)} `;
    if (entry.kind === "change") {
      const alike = alikeFrom(entries, index);
      texts.push(`${prefix}${printable(changeText(alike))}\n`);
      index += alike.length - 1;
      continue;
    }
    const { sync } = entry;
    const name = nameOf(sync);
    const reasons = uniqueReasons(sync);
    const before = known.get(name);
    known.set(name, new Set(reasons.map(gist)));
    const fold = folds.get(entry);
    if (fold !== undefined && !all) {
      if (fold.isFirst) texts.push(`${prefix}${printable(foldText(name, fold, startMs))}\n`);
      continue;
    }
    const news = reasons.filter((reason) => all || before?.has(gist(reason)) !== true);
    if (!all && isQuiet(sync, news)) {
      const waits = news.find(({ rule }) => rule === "becomes available");
      const why = [...idleInWords(reasons), ...(waits ? [cited(sync, waits)] : [])].join("; ");
      texts.push(`${prefix}${printable(`sync of ${name} → nothing to do${why === "" ? "" : `: ${why}`}`)}\n`);
      continue;
    }
    const lines = [...news.map((reason) => cited(sync, reason)), ...decisionsOf(entry, { endMs, all, refusals })];
    texts.push(`${prefix}sync of ${printable(name)}\n${lines.map((line) => `${INDENT}${printable(line)}\n`).join("")}`);
  }
  return texts;
}

function nameOf({ controller, key }: ReplayedSync): string {
  return objectName(CONTROLLER_INFO[controller].primary, key.slice(key.indexOf("/") + 1));
}

interface Fold {
  /** Whether this is the first repeated decision, in whose place the summary of all repeats is printed. */
  readonly isFirst: boolean;
  readonly times: number;
  readonly untilMs: number;
  readonly what: string;
}

/** Syncs that repeat the decisions and reasons of the key's previous sync, which happens until the response to a write is recorded. */
function foldsIn(entries: readonly Entry[]): ReadonlyMap<Entry, Fold> {
  const folds = new Map<Entry, Fold>();
  const last = new Map<string, { readonly text: string; readonly repeats: SyncEntry[] }>();
  const close = ({ repeats }: { readonly repeats: readonly SyncEntry[] }): void => {
    for (const [index, each] of repeats.entries())
      folds.set(each, {
        isFirst: index === 0,
        times: repeats.length,
        untilMs: repeats.at(-1)?.atMs ?? each.atMs,
        what: decidedIn(each.sync).join(", ") || "nothing to do",
      });
  };
  for (const entry of entries) {
    if (entry.kind === "change") continue;
    const { sync } = entry;
    const name = nameOf(sync);
    const text = [...uniqueReasons(sync).map(gist), ...decidedIn(sync), sync.error ?? ""].join("\n");
    const run = last.get(name);
    if (run?.text === text) run.repeats.push(entry);
    else {
      if (run !== undefined) close(run);
      last.set(name, { text, repeats: [] });
    }
  }
  for (const run of last.values()) close(run);
  return folds;
}

function foldText(name: string, { times, untilMs, what }: Fold, startMs: number): string {
  return times === 1
    ? `sync of ${name} decides the same: ${what}`
    : `${times} syncs of ${name} until ${since(untilMs, startMs)} decide the same: ${what}`;
}

/** Identifies a reason regardless of its times. */
function gist({ rule, about, facts }: Reason): string {
  return JSON.stringify([rule, about, { ...facts, afterMs: undefined, since: undefined }]);
}

/** Whether a sync only observes the result of its own write. */
function isQuiet({ lines, error }: ReplayedSync, news: readonly Reason[]): boolean {
  const isOwn = ({ rule, facts }: Reason): boolean =>
    rule === "becomes available" ||
    rule === "not resized" ||
    (rule === "history limit" && facts["excess"] === 0) ||
    rule === "looks at the deadline" ||
    ((rule === "counts" || rule === "progress") && facts["differs"] === false);
  return error === undefined && !lines.some(({ kind }) => kind === "decided") && news.every(isOwn);
}

function cited({ controller }: ReplayedSync, reason: Reason): string {
  const section = sectionOf(controller, reason);
  return `${reasonInWords(reason)}${section === undefined ? "" : `  [${section}]`}`;
}

/** The reasons without duplicates: a live list repeats some reasons. */
function uniqueReasons({ lines }: ReplayedSync): readonly Reason[] {
  const reasons = new Map(lines.flatMap((line) => (line.kind === "reason" ? [[JSON.stringify(line.reason), line.reason] as const] : [])));
  return [...reasons.values()];
}

type SyncEntry = Extract<Entry, { kind: "sync" }>;

function decidedIn({ lines }: ReplayedSync): readonly string[] {
  return lines.flatMap((line) => (line.kind === "decided" ? [describeTrace(line)] : []));
}

interface DecisionContext {
  readonly endMs: number;
  /** Whether all writes are included, even those that depend on a response, which a replay lacks. */
  readonly all: boolean;
  /** Messages of rejections that were printed. */
  readonly refusals: Set<string>;
}

export function decisionsOf(
  { atMs, sync: { lines, error }, recorded }: SyncEntry,
  { endMs, all, refusals }: DecisionContext,
): readonly string[] {
  const restMs = endMs - atMs;
  const decided = lines.flatMap((line) =>
    line.kind === "decided" ? [`→ ${describeTrace(line)}${recordedText(recorded, line, { restMs, refusals })}`] : [],
  );
  const undecided = lines.flatMap((line) => (all && line.kind === "notDecided" ? [line.what] : []));
  return [
    ...(decided.length > 0 ? decided : ["→ nothing to do"]),
    ...(undecided.length > 0 ? [`  not decided before the API server responds: ${undecided.join(", ")}`] : []),
    ...(error === undefined ? [] : [`error: ${error}`]),
  ];
}

function recordedText(
  recorded: readonly Recorded[],
  line: Extract<TraceLine, { kind: "decided" }>,
  { restMs, refusals }: Pick<DecisionContext, "refusals"> & { readonly restMs: number },
): string {
  const found = recorded.find(({ write }) => write === line.write);
  if (found === undefined) return "";
  const { kind, afterMs = 0, what = "", made, write } = found;
  const { some, verb } = part(write, made);
  switch (kind) {
    case "same":
      return `; recorded ${afterMs === 0 ? "at the same time" : `${afterMs} ms later`}${what === "" ? "" : `, after it was ${refusal(what, refusals)}`}`;
    case "other":
      return `; in the recording: ${what}, ${afterMs} ms later`;
    case "refused":
      return `; in the recording ${some} ${verb} ${refusal(what, refusals)}`;
    case "overtaken":
      return `; in the recording ${some} ${verb} not done: ${what} ${afterMs} ms later`;
    case "nothing":
      return `; not done in the recording${restMs < LATER_MS ? `, which ends ${(restMs / 1000).toFixed(1)} s later` : " within a minute"}`;
  }
}

/** Describes the subset of pods that the rest of the sentence concerns. */
function part(write: Recorded["write"], made: number | undefined): { readonly some: string; readonly verb: "was" | "were" } {
  if (made === undefined || write.kind !== "CreatePods") return { some: "it", verb: "was" };
  const left = write.count - made;
  const others = left === 1 ? "other" : `other ${left}`;
  return {
    some: `${made} of the ${write.count} ${made === 1 ? "was" : "were"} created, and the ${others}`,
    verb: left === 1 ? "was" : "were",
  };
}

/** Describes a rejection; each message is printed in full only once. */
function refusal(what: string, refusals: Set<string>): string {
  const isKnown = refusals.has(what);
  refusals.add(what);
  return `refused${isKnown ? " with the same message" : `: ${what}`}`;
}

interface ReasonText {
  readonly words: string;
  /** The section of docs/internals/spec; undefined for an unknown rule. */
  readonly section: string | undefined;
}

function inWords({ controller }: ReplayedSync, reason: Reason): ReasonText {
  return { section: sectionOf(controller, reason), words: reasonInWords(reason) };
}

export function reasonsOf(sync: ReplayedSync): readonly ReasonText[] {
  return uniqueReasons(sync).map((reason) => inWords(sync, reason));
}

export function asJson(entry: Entry, startMs: number): object {
  const when = { at: new Date(entry.atMs).toISOString(), sinceMs: entry.atMs - startMs };
  if (entry.kind === "change") {
    const { atMs: _, kind, ...change } = entry.change;
    return { ...when, kind: "change", change: kind, ...change };
  }
  const { controller, key, reasons, lines, outcome, error } = entry.sync;
  return {
    ...when,
    ...{ kind: "sync", controller, key, wokenBy: reasons, outcome, error },
    reasons: uniqueReasons(entry.sync).map((reason) => ({ ...reason, ...inWords(entry.sync, reason) })),
    writes: lines.flatMap((line) => (line.kind === "decided" ? [{ ...line.write, words: describeTrace(line) }] : [])),
    recorded: entry.recorded.map(({ write, ...rest }) => ({ ...rest, write: write.kind })),
    undecided: lines.flatMap((line) => (line.kind === "notDecided" ? [line.what] : [])),
  };
}
