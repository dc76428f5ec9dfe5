/**
 * `npm run mutants -- --window [TEXT]`: whether shadow's window hides a planted decision. Plants the mistakes of decisions.ts and releases.ts, and asks shadow's judge
 * alone, up to the first recording in which it sees the mistake: a tenth of the time of run.ts. A mistake is hidden if it sees nothing, although with a
 * window of zero, in which no older state explains a write, it would. Exit code 1: at least one is hidden.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { planted, withCopy } from "./copy.ts";
import { MUTANTS } from "./decisions.ts";
import { RELEASE_MUTANTS } from "./releases.ts";

/** Of one recording: differences that the judge sees, and writes that only an older state explains. */
export interface Counts {
  readonly name: string;
  readonly seen: number;
  readonly older: number;
}

type Verdict = "seen" | "unseen" | "HIDDEN";

/** @returns how many mistakes the window hides */
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

/** @param counts end at the first recording that differs; undefined: the mistake makes the program fail */
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
