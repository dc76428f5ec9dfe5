/**
 * `npm run mutants [-- TEXT]` (`-- --window [TEXT]`: see window.ts): applies each mistake of decisions.ts, releases.ts and imports.ts (or
 * those whose file or description contains TEXT) to a copy, runs the comparison of `deltaloop shadow` on all of test/captures, and prints its findings. If it finds
 * nothing, closed replays of the same recordings run (test/golden/closed.test.ts), then the comparison with upstream's results for random
 * objects (test/golden/differential.test.ts), and finally the controller's unit tests. Exit code 1: no check found it. If shadow finds the
 * mistake, `deltaloop explain`'s replay of that recording must cite the rule that the mistake violates, or its section, among the reasons
 * of the syncs concerned. The script also prints what shadow would find with a window of zero, in which no older state explains a write:
 * that must not be more than it finds, or the window hides mistakes.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { planted, withCopy } from "./copy.ts";
import { MUTANTS } from "./decisions.ts";
import type { DecisionMutant, Mutant } from "./decisions.ts";
import { IMPORT_MUTANTS } from "./imports.ts";
import { RELEASE_MUTANTS } from "./releases.ts";
import { compareWindows } from "./window.ts";

const OTHERS = [
  { name: "closed", tests: () => "test/golden/closed.test.ts" },
  { name: "differential", tests: () => "test/golden/differential.test.ts" },
  { name: "unit", tests: (file: string) => `test/unit/${file.split("/")[1] ?? ""}` },
] as const;

/** Tests of imports: the same scene in three recording formats must yield the same result, and tables must have each file's meaning. */
const IMPORTS = [
  { name: "scenes", tests: () => "test/golden/import.test.ts" },
  { name: "unit", tests: () => "test/unit/replay/import.test.ts" },
] as const;

/** Limit of the output of recordings.ts in bytes; a mistake may cause a finding at every sync. */
const SEEN_BYTES_MAX = 2 ** 28;

const chosen = [...MUTANTS, ...RELEASE_MUTANTS, ...IMPORT_MUTANTS].filter(({ what, file }) =>
  `${file} ${what}`.includes(process.argv[2] ?? ""),
);
let [missed, shown, led, atZero, hidden] = [0, 0, 0, 0, 0];

if (process.argv[2] === "--window") {
  if (compareWindows(process.argv[3] ?? "") > 0) process.exitCode = 1;
} else {
  withCopy(compareAll);
  process.stdout.write(`${missed} of ${chosen.length} were not seen; of ${shown} that shadow saw, explain leads to the rule of ${led}\n`);
  process.stdout.write(`with a window of zero shadow sees ${atZero}, of which the window hides ${hidden}\n`);
  if (missed > 0) process.exitCode = 1;
}

function compareAll(folder: string): void {
  const clean = seen(folder);
  process.stdout.write(`as it is: ${clean.words}\n`);
  for (const mutant of chosen) planted(folder, mutant, () => compare(folder, mutant, clean));
}

function compare(folder: string, mutant: Mutant, clean: Seen): void {
  const { what, file } = mutant;
  const isImport = file.startsWith("replay/import/");
  const found = isImport ? clean : seen(folder);
  const judge =
    found.words === clean.words ? (isImport ? IMPORTS : OTHERS).find(({ tests }) => isRed(folder, tests(file))) : { name: "shadow" };
  const isSeenAtZero = judge?.name === "shadow" || found.atZero !== clean.atZero;
  if (isSeenAtZero && !isImport) atZero++;
  if (isSeenAtZero && judge?.name !== "shadow") hidden++;
  if (judge === undefined) missed++;
  // mistakes of decisions.ts have a rule
  const rule = judge?.name === "shadow" && "rule" in mutant ? (mutant as DecisionMutant).rule : undefined;
  const cited = newIn(found, clean);
  const isLed = rule !== undefined && cited.some((section) => rule === section || rule.startsWith(`${section}.`));
  if (rule !== undefined) shown++;
  if (isLed) led++;
  const where =
    rule === undefined ? "" : isLed ? `; explain leads to ${rule}` : `; explain leads to ${cited.join(", ") || "nothing"}, NOT TO ${rule}`;
  process.stdout.write(
    `${(judge?.name ?? "UNSEEN").padEnd(12)}  ${what}${isImport ? "" : `: ${found.words}${where}${isSeenAtZero && judge?.name !== "shadow" ? "; HIDDEN BY THE WINDOW" : ""}`}\n`,
  );
}

function isRed(folder: string, tests: string): boolean {
  const args = [join(folder, "node_modules/vitest/vitest.mjs"), "run", "--project", "check", tests];
  return spawnSync(process.execPath, args, { cwd: folder, stdio: "ignore" }).status !== 0;
}

interface Seen {
  readonly words: string;
  /** Writes that no state explains if the window is zero. */
  readonly atZero: number;
  /** The findings, and the sections that `explain` cites for each. */
  readonly seen: readonly { readonly at: string; readonly cited: readonly string[] }[];
}

/** Ignores findings that also occur without a mistake (deletions by unknown clients). */
function newIn(found: Seen, clean: Seen): readonly string[] {
  const known = new Set(clean.seen.map(({ at }) => at));
  return [...new Set(found.seen.filter(({ at }) => !known.has(at)).flatMap(({ cited }) => cited))].toSorted();
}

/** The output of recordings.ts. */
interface Printed {
  readonly unexplained: number;
  readonly older: number;
  readonly atRest: number;
  readonly seen: Seen["seen"];
}

function seen(folder: string): Seen {
  const { stdout, stderr, status } = spawnSync(process.execPath, ["test/mutants/recordings.ts"], {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: SEEN_BYTES_MAX,
  });
  if (status !== 0) return { words: `failed: ${stderr.trim().split("\n").at(-1) ?? ""}`, atZero: -1, seen: [] };
  const { unexplained, older, atRest, seen: places } = JSON.parse(stdout) as Printed;
  return {
    words: `${unexplained} of upstream's writes not explained, ${atRest} of ours at rest`,
    atZero: unexplained + older,
    seen: places,
  };
}
