/** Prints how many of upstream's writes in test/captures are not explained, and what we would have written at rest: `3 0`. Run in a copy. */
import { readdirSync } from "node:fs";
import { join } from "node:path";

import { shadow } from "../../shared/replay/shadow/shadow.ts";
import { PLACE, readRecording } from "../golden/shadow.ts";

const folder = join(import.meta.dirname, "../captures");
const names = readdirSync(folder).flatMap((file) => (file.endsWith(".watch.jsonl.gz") ? [file.replace(".watch.jsonl.gz", "")] : []));
let [unexplained, atRest] = [0, 0];
for (const name of names)
  for await (const finding of shadow(readRecording(name).changes, PLACE)) {
    if (finding.kind === "rest") atRest += finding.ours.length;
    else if (!["exact", "older", "tie"].includes(finding.verdict.kind)) unexplained++;
  }
process.stdout.write(`${unexplained} ${atRest}\n`);
