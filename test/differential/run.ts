/**
 * `npm run diff -- [--seeds n | --seeds a-b] [--controller name] [--max n] [--record]`: runs random histories with upstream's controllers
 * and ours, compared after each sync. `npm run diff -- --sequence [--life name] [--seeds ...] [--trace]` runs each script once with each
 * side and compares the whole histories. Prints the differences; `--record` writes the corpus of histories that have only permitted
 * differences.
 */
import { parseArgs } from "node:util";

import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import { COMPARED_VERSION } from "../envtest/release-module.ts";
import { judgeProgram } from "./build.ts";
import { writeCorpus, type RecordedLife } from "./corpus.ts";
import { startJudge } from "./judge.ts";
import { asking, playLife } from "./life.ts";
import { reportOf } from "./report.ts";
import { playSequence } from "./sequence/play.ts";
import { LIVES } from "./sequence/script.ts";
import { reportOf as sequenceReportOf, traceOf } from "./sequence/report.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1-100" },
    controller: { type: "string" },
    max: { type: "string", default: "5" },
    record: { type: "boolean", default: false },
    sequence: { type: "boolean", default: false },
    life: { type: "string" },
    trace: { type: "boolean", default: false },
  },
});
const built = await judgeProgram();
if ("missing" in built) throw new Error(built.missing);
const judge = startJudge(built.program);
const startedAt = performance.now();
const [first = 1, last] = values.seeds.includes("-") ? values.seeds.split("-").map(Number) : [1, Number(values.seeds)];
const counts = new Map<string, number>();
const lives: RecordedLife[] = [];
let differences = 0;
const lived = LIVES.filter(
  (life) =>
    life === (values.life ?? life) &&
    (values.controller === undefined || (life === "deployment" || life === "losses") === (values.controller === "deployment")),
);
for (const life of values.sequence ? lived : []) {
  for (let seed = first; seed <= (last ?? first) && differences < Number(values.max); seed++) {
    const sequence = await playSequence(life, seed, judge);
    if (values.trace) for (const line of traceOf(sequence)) console.log(line);
    if (sequence.differences.length === 0) continue;
    differences++;
    console.log(sequenceReportOf(life, seed, sequence));
  }
}
const controllers = values.sequence ? [] : CONTROLLERS.filter((each) => values.controller === undefined || each === values.controller);
for (const controller of controllers) {
  for (let seed = first; seed <= (last ?? first) && differences < Number(values.max); seed++) {
    const outcomes = [];
    let isFit = true;
    for await (const judged of playLife(controller, seed, asking(judge))) {
      const { verdict, upstream } = judged;
      const name = verdict.kind === "known" ? verdict.name : verdict.kind;
      counts.set(name, (counts.get(name) ?? 0) + 1);
      outcomes.push(upstream);
      isFit &&= verdict.kind !== "differs" && !name.startsWith("awaited");
      if (verdict.kind !== "differs") continue;
      differences++;
      console.log(`${controller}, seed ${seed}, ${reportOf(judged)}`);
    }
    if (isFit) lives.push({ controller, seed, outcomes });
  }
}
judge.close();
if (values.record) await writeCorpus(COMPARED_VERSION, lives);
for (const [name, count] of counts) console.log(`${String(count).padStart(7)}  ${name}`);
console.log(`${differences} differ, ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
if (differences > 0) process.exitCode = 1;
