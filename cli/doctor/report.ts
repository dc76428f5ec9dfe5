/** Findings as text (worst first, and one line for each section without findings) and as an object (`-o`, described in cli/README.md). */
import { printable } from "@deltaloop/base/output";
import { CHECKS } from "./finding.ts";
import type { Finding, State } from "./finding.ts";

export interface Report {
  readonly deployment: string;
  readonly cluster: string;
  readonly mode: string;
  readonly tookMs: number;
  readonly findings: readonly Finding[];
}

const FORMAT_VERSION = 1;
const STATES: readonly State[] = ["failure", "warning", "notChecked", "ok"];
/** Width of the first column: `not checked` and two spaces. */
const MARGIN = 13;
const WIDTH_MIN = 60;

/** Formats a report for a terminal with `width` columns. */
export function reportForPeople({ deployment, cluster, mode, tookMs, findings }: Report, width: number): string {
  const of = (state: State): readonly Finding[] => findings.filter((finding) => finding.state === state);
  const unwell = [...of("failure"), ...of("warning")].map(
    ({ state, seen, remedy = "", ...rest }) => entry(state, `${nameOf(rest)}: ${seen}`, width) + entry("", `-> ${remedy}`, width),
  );
  const unchecked = [...Map.groupBy(of("notChecked"), ({ seen }) => seen)].map(([why, some]) =>
    entry("not checked", `${why}: ${namesOf(some, findings).join(", ")}`, width),
  );
  const well = [...Map.groupBy(of("ok"), ({ check }) => CHECKS[check].section)].map(([section, some]) =>
    entry("ok", `${section}: ${[...Map.groupBy(some, ({ check }) => check).values()].map(inOnePhrase).join("; ")}`, width),
  );
  const counts = STATES.map((state) => countOf(of(state).length, state));
  return [
    `deltaloop doctor: deployment ${deployment}, cluster ${cluster}, mode ${mode}\n`,
    ...unwell,
    [...unchecked, ...well].join(""),
    `${counts.join(", ")}; ${(tookMs / 1000).toFixed(1)} s\n`,
  ]
    .filter((part) => part !== "")
    .join("\n");
}

export function reportAsObject({ findings, ...rest }: Report): object {
  const counts = Object.fromEntries(STATES.map((state) => [state, findings.filter((finding) => finding.state === state).length]));
  const described = findings.map(({ check, ...finding }) => ({ check, ...CHECKS[check], ...finding }));
  return { version: FORMAT_VERSION, ...rest, counts, findings: described };
}

/** Removes secrets that an error message contains; values shorter than 4 characters do not count as secrets. */
export function withoutSecrets(findings: readonly Finding[], secrets: readonly string[]): readonly Finding[] {
  const known = secrets.filter((secret) => secret.length >= 4);
  return findings.map((finding) => ({ ...finding, seen: known.reduce((left, secret) => left.replaceAll(secret, "***"), finding.seen) }));
}

function nameOf({ check, of }: Pick<Finding, "check" | "of">): string {
  return of === undefined ? check : `${check} ${of}`;
}

/** Returns the names of checks, without the list of instances if `some` contains all of them. */
function namesOf(some: readonly Finding[], all: readonly Finding[]): readonly string[] {
  return [...Map.groupBy(some, ({ check }) => check)].flatMap(([check, group]) =>
    group.length === all.filter((finding) => finding.check === check).length ? [check] : group.map(nameOf),
  );
}

/** The observations of one check, without repetition. */
function inOnePhrase(some: readonly Finding[]): string {
  const phrases = new Set(some.map(({ seen }) => seen));
  return phrases.size === 1 ? [...phrases].join() : some.map(({ of = "", seen }) => `${of} ${seen}`.trim()).join(", ");
}

function countOf(count: number, state: State): string {
  if (state === "notChecked") return `${count} not checked`;
  return `${count} ${state}${state === "ok" || count === 1 ? "" : "s"}`;
}

/** Formats an entry with a first column and the wrapped text next to it. */
function entry(first: string, text: string, width: number): string {
  const room = Math.max(width, WIDTH_MIN) - MARGIN;
  const lines: string[] = [];
  let line = "";
  for (const word of printable(text).split(" ")) {
    if (line !== "" && line.length + 1 + word.length > room) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  lines.push(line);
  return lines.map((each, index) => `${index === 0 ? first.padEnd(MARGIN) : " ".repeat(MARGIN)}${each}\n`).join("");
}
