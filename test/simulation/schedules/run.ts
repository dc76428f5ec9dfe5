/**
 * `npm run schedules -- [--seeds a-b] [--agree] [--rules] [--off rule] [--max n]`: runs schedules with the real scripts on a private Redis.
 * `--agree` runs protocol seeds and compares each answer with the memory Store's. `--rules` prints, for each rule, how many schedules run
 * without it until one fails.
 */
import { parseArgs } from "node:util";
import { ensureRedisServer, startRedis } from "../../support/redis.ts";
import { runMany } from "./many.ts";
import { BREAKAGES } from "./rules.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1-500" },
    agree: { type: "boolean", default: false },
    rules: { type: "boolean", default: false },
    off: { type: "string" },
    max: { type: "string", default: "2000" },
  },
});
const missing = ensureRedisServer();
if (missing !== undefined) throw new Error(missing);
const server = await startRedis();
try {
  if (values.rules || values.off !== undefined) await printRules(Number(values.max));
  else await printSeeds();
} finally {
  await server.stop();
}

async function printSeeds(): Promise<void> {
  const [first = 1, last = first] = values.seeds.split("-").map(Number);
  const startedAt = performance.now();
  const { ran, failed } = await runMany({ url: server.url, first, last, agrees: values.agree });
  for (const { seed, rule, what } of failed.slice(0, 20)) console.log(`seed ${seed}: ${rule}: ${what}`);
  const seeds = new Set(failed.map(({ seed }) => seed)).size;
  console.log(`${ran} schedules, ${seeds} failed, ${((performance.now() - startedAt) / 1000).toFixed(0)} s`);
  if (failed.length > 0) process.exitCode = 1;
}

async function printRules(max: number): Promise<void> {
  console.log("| rule | fault without the rule | schedules until one fails | check |\n|---|---|---|---|");
  for (const off of BREAKAGES.filter(({ rule }) => values.off === undefined || rule === values.off)) {
    const { failed } = await runMany({ url: server.url, first: 1, last: max, off, stop: true });
    const [first] = failed;
    console.log(`| ${off.rule} | ${off.off} | ${first ? first.seed : `none (${max})`} | ${first?.rule ?? "–"} |`);
    if (values.off !== undefined && first) console.log(first.what);
  }
}
