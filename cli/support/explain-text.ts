/** The story of an object as people read it, and as programs do. */
import { CONTROLLER_INFO, RESOURCES } from "../../shared/api/resources.ts";
import type { Reason } from "../../shared/controller/reason.ts";
import type { TraceLine } from "../../shared/controller/run.ts";
import type { Capture } from "../../shared/replay/capture-stream.ts";
import type { Difference, ObjectChange } from "../../shared/replay/explain/changes.ts";
import type { Entry, Recorded, Subject } from "../../shared/replay/explain/story.ts";
import type { ReplayedSync } from "../../shared/replay/replay.ts";
import { describeTrace } from "./describe.ts";
import { printable } from "./printable.ts";
import { reasonInWords, sectionOf } from "./reason-words.ts";
import { Repeats } from "./repeats.ts";

/** Names in one line. */
const NAMES_MAX = 3;
const INDENT = " ".repeat(23);

export function heading({ resource, namespace, name }: Subject, { startMs, endMs }: Pick<Capture, "startMs" | "endMs">): string {
  const [from, to] = [startMs, endMs].map((ms) => new Date(ms).toISOString());
  return (
    `${RESOURCES[resource].kind} ${printable(`${namespace}/${name}`)} from ${from} to ${to}\n` +
    "What changed is the recording's. A sync is ours, on what had been told until then: its reasons, as far as they are not those of the\n" +
    "sync before, each with its rule in docs/spec, → what it decides, and what was done in the recording.\n\n"
  );
}

/** One block per sync, and one line per change. */
export function told(entries: readonly Entry[], startMs: number, all: boolean): readonly string[] {
  const repeats = new Repeats();
  const reasons = new Map<string, ReadonlySet<string>>();
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
    const name = `${RESOURCES[CONTROLLER_INFO[sync.controller].primary].kind} ${sync.key}`;
    const said = reasonsOf(sync);
    const decided = decisionsOf(entry);
    const { isNews, before } = repeats.next(name, [...said, ...decided].join("\n"), since(entry.atMs, startMs));
    if (before !== undefined && !all) texts.push(`${INDENT}${printable(name)} ${before}\n`);
    const known = reasons.get(name);
    reasons.set(name, said);
    if (!isNews && !all) continue;
    const lines = [...[...said].filter((reason) => all || !known?.has(reason)), ...decided];
    texts.push(`${prefix}sync of ${printable(name)}\n${lines.map((line) => `${INDENT}${printable(line)}\n`).join("")}`);
  }
  return [...texts, ...[...repeats.rest()].map(([name, said]) => `${INDENT}${printable(name)} ${said}\n`)];
}

function since(atMs: number, startMs: number): string {
  return `+${((atMs - startMs) / 1000).toFixed(3)}s`;
}

/** Neighbours that say the same of pods of one owner. */
function alikeFrom(entries: readonly Entry[], index: number): readonly [ObjectChange, ...ObjectChange[]] {
  const [first, ...rest] = entries.slice(index).map((entry) => (entry.kind === "change" ? entry.change : undefined));
  if (first === undefined) throw new Error("no change stands there");
  const end = rest.findIndex(
    (change) =>
      change === undefined ||
      first.resource !== "pods" ||
      change.resource !== "pods" ||
      predicate(change) !== predicate(first) ||
      change.owner !== first.owner,
  );
  const alike = rest.slice(0, end === -1 ? rest.length : end).filter((change) => change !== undefined);
  return [first, ...alike];
}

function changeText(changes: readonly [ObjectChange, ...ObjectChange[]]): string {
  const [first] = changes;
  const { kind } = RESOURCES[first.resource];
  const names = changes.slice(0, NAMES_MAX).map(({ name }) => name);
  const more = changes.length - names.length;
  const who = `${kind}${changes.length > 1 ? "s" : ""} ${first.namespace}/${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  return `${who} ${predicate(first, changes.length > 1)}`;
}

/** What is told of an object that is new: the rest is its manifest's. */
const AT_FIRST = new Set(["replicas", "paused", "revision", "owner", "phase"]);

function predicate({ kind, differences, by, resource }: ObjectChange, isOfSeveral = false): string {
  const whose = by === undefined ? "" : ` (${by})`;
  if (kind === "goes") return isOfSeveral ? "are gone" : "is gone";
  if (kind === "changes") return `${differences.map(differenceText).join(", ")}${whose}`;
  const first = differences.filter(({ field }) => AT_FIRST.has(field) && !(resource === "pods" && field === "owner"));
  const facts = first.map(({ field, to = "" }) => `${field} ${to}`).join(", ");
  const verb = kind === "stands" ? ["stand there", "stands there"] : ["appear", "appears"];
  return `${verb[isOfSeveral ? 0 : 1]}${facts === "" ? "" : `: ${facts}`}${whose}`;
}

function differenceText({ field, from, to }: Difference): string {
  const name = field.replace(
    /^status\.(.*?)(?:Replicas)?$/,
    (_, counter: string) => `status ${counter === "observedGeneration" ? "observed generation" : counter}`,
  );
  if (from === undefined && to === undefined) return `${name} changed`;
  if (field === "asked to end") return from === undefined ? "asked to end" : "asked to end by another time";
  if (field === "node" && from === undefined) return `assigned to ${to}`;
  if (to === undefined) return name.startsWith("status ") ? `${name} ${from} → 0` : `no ${name} any more`;
  return from === undefined ? `${name} ${name.startsWith("status ") ? `0 → ${to}` : to}` : `${name} ${from} → ${to}`;
}

/** Each once: some are looked at again on a live list. */
function uniqueReasons({ lines }: ReplayedSync): readonly Reason[] {
  const reasons = new Map(lines.flatMap((line) => (line.kind === "reason" ? [[JSON.stringify(line.reason), line.reason] as const] : [])));
  return [...reasons.values()];
}

function reasonsOf(sync: ReplayedSync): ReadonlySet<string> {
  return new Set(
    uniqueReasons(sync).map((reason) => {
      const section = sectionOf(sync.controller, reason);
      return `${reasonInWords(reason)}${section === undefined ? "" : `  [${section}]`}`;
    }),
  );
}

function decisionsOf({ sync: { lines, error }, recorded }: Extract<Entry, { kind: "sync" }>): readonly string[] {
  const decided = lines.flatMap((line) => (line.kind === "decided" ? [`→ ${describeTrace(line)}${recordedText(recorded, line)}`] : []));
  const undecided = lines.flatMap((line) => (line.kind === "notDecided" ? [line.what] : []));
  return [
    ...(decided.length > 0 ? decided : ["→ nothing to do"]),
    ...(undecided.length > 0 ? [`  then, by the answer: ${undecided.join(", ")}`] : []),
    ...(error === undefined ? [] : [`error: ${error}`]),
  ];
}

function recordedText(recorded: readonly Recorded[], line: Extract<TraceLine, { kind: "decided" }>): string {
  const found = recorded.find(({ write }) => write === line.write);
  if (found === undefined) return "";
  const { kind, afterMs = 0, what = "" } = found;
  if (kind === "nothing") return "; in the recording nothing came of it";
  return kind === "same" ? `; so it was done ${afterMs} ms later` : `; in the recording: ${what}, ${afterMs} ms later`;
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
    reasons: uniqueReasons(entry.sync).map((reason) => ({
      ...reason,
      section: sectionOf(controller, reason),
      words: reasonInWords(reason),
    })),
    writes: lines.flatMap((line) => (line.kind === "decided" ? [{ ...line.write, words: describeTrace(line) }] : [])),
    recorded: entry.recorded.map(({ write, ...rest }) => ({ ...rest, write: write.kind })),
    undecided: lines.flatMap((line) => (line.kind === "notDecided" ? [line.what] : [])),
  };
}
