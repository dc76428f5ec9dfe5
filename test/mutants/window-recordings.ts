/**
 * `window-recordings.ts [CLEAN]`: prints one line of JSON per recording of test/captures, with the number of shadow's findings and the
 * number of writes that only an older state explains. CLEAN is the output of a run without a mistake; with it, the program ends at the
 * first recording whose number of findings differs.
 */
import { readFileSync } from "node:fs";

import { readRecording } from "../golden/shadow.ts";
import { differencesIn, recordingNames } from "./differences.ts";
import type { Counts } from "./window.ts";
import { shadow } from "../support/held-capture.ts";

const [, , cleanFile] = process.argv;
const clean = new Map<string, Counts>();
for (const line of cleanFile === undefined ? [] : readFileSync(cleanFile, "utf8").trim().split("\n")) {
  const counts = JSON.parse(line) as Counts;
  clean.set(counts.name, counts);
}
for (const name of recordingNames()) {
  let [seen, older] = [0, 0];
  const { changes, place } = readRecording(name);
  for await (const finding of shadow(changes, place)) {
    if (finding.kind !== "rest" && finding.verdict.kind === "older") older++;
    seen += differencesIn(finding).length;
  }
  process.stdout.write(`${JSON.stringify({ name, seen, older } satisfies Counts)}\n`);
  if (clean.has(name) && clean.get(name)?.seen !== seen) break;
}
