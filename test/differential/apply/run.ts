/**
 * `node test/differential/apply/run.ts [--seeds n | --seeds a-b] [--record]`: sends random writes of several managers through upstream's
 * field manager and ours. Prints the differences; `--record` writes upstream's results for runs without Go.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { digestOf, firstDifference, playOurs, reportOf } from "./compare.ts";
import { RECORDED } from "./recorded.ts";
import { fieldManagerProgram, startFieldManager } from "./upstream.ts";

const { values } = parseArgs({ options: { seeds: { type: "string", default: "1-2000" }, record: { type: "boolean", default: false } } });
const REPORTS_MAX = 3;
const built = await fieldManagerProgram();
if ("missing" in built) throw new Error(built.missing);
const upstream = startFieldManager(built.program);
const startedAt = performance.now();
const [first = 1, last = first] = values.seeds.includes("-") ? values.seeds.split("-").map(Number) : [1, Number(values.seeds)];
const digests: string[] = [];
let differences = 0;
let writes = 0;
let conflicts = 0;
for (let seed = first; seed <= last; seed += 1) {
  const ours = playOurs(seed);
  const theirs = await upstream.play(ours);
  const at = firstDifference(ours, theirs);
  writes += ours.steps.length;
  conflicts += theirs.filter(({ causes }) => causes !== undefined).length;
  digests.push(digestOf(theirs));
  if (at === undefined) continue;
  differences += 1;
  if (differences <= REPORTS_MAX) console.log(reportOf(seed, ours, theirs, at));
}
upstream.close();
const seconds = Math.round((performance.now() - startedAt) / 1000);
console.log(`${last - first + 1} sequences, ${writes} writes, ${conflicts} conflicts, ${differences} different, ${seconds} s`);
if (values.record) writeFileSync(RECORDED, `${JSON.stringify({ first, digests }, null, 2)}\n`);
process.exitCode = differences > 0 ? 1 : 0;
