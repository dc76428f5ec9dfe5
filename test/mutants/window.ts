/**
 * `npm run mutants -- --window [TEXT]`: checks that shadow's time window hides no mistake. Applies each mistake of decisions.ts and
 * releases.ts and runs only shadow's comparison, up to the first recording in which it finds the mistake; this takes a tenth of the time of
 * run.ts. A mistake is hidden if shadow finds nothing, although it would with a window of zero, in which no older state explains a write.
 * Exits with 1 if a mistake is hidden.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { planted, withCopy } from "./copy.ts";
import { MUTANTS } from "./decisions.ts";
import { RELEASE_MUTANTS } from "./releases.ts";

/** Counts for one recording: shadow's findings, and writes that only an older state explains. */
export interface Counts {
  readonly name: string;
  readonly seen: number;
  readonly older: number;
}

type Verdict = "seen" | "unseen" | "HIDDEN";

/** @returns the number of hidden mistakes */
export function compareWindows(text: string): number {
  return withCopy((folder) => {
    const cleanFile = join(folder, "clean.jsonl");
    const clean = countsIn(folder);
    writeFileSync(cleanFile, clean.map((counts) => `${JSON.stringify(counts)}\n`).join(""));
    const found = { seen: 0, unseen: 0, HIDDEN: 0 };
    for (const mutant of [...MUTANTS, ...RELEASE_MUTANTS].filter(({ what, file }) => `${file} ${what}`.includes(text))) {
      const verdict = planted(folder, mutant, () => verdictOf(countsIn(folder, cleanFile), clean));
      found[verdict]++;
      process.stdout.write(`${verdict.padEnd(8)}${mutant.what}\n`);
    }
    const atZero = found.seen + found.HIDDEN;
    process.stdout.write(`shadow sees ${found.seen}, with a window of zero ${atZero}; neither sees ${found.unseen}\n`);
    return found.HIDDEN;
  });
}

/** @param counts up to the first recording that differs; undefined if the mistake makes the program fail */
function verdictOf(counts: readonly Counts[] | undefined, clean: readonly Counts[]): Verdict {
  if (counts === undefined || counts.some(({ seen }, i) => seen !== clean[i]?.seen)) return "seen";
  return counts.some(({ older }, i) => older !== clean[i]?.older) ? "HIDDEN" : "unseen";
}

function countsIn(folder: string): readonly Counts[];
function countsIn(folder: string, cleanFile: string): readonly Counts[] | undefined;
function countsIn(folder: string, cleanFile?: string): readonly Counts[] | undefined {
  const args = ["test/mutants/window-recordings.ts", ...(cleanFile === undefined ? [] : [cleanFile])];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
  if (status === 0)
    return stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Counts);
  if (cleanFile === undefined) throw new Error(stderr);
  return undefined;
}
