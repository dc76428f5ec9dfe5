/** `npm run sim -- --seed n [--seeds a-b] [--trace] [--off rule,rule] [--fault flush|damage|restore|rewind|clock|clone] [--stop]`: the simulation, seed by seed; `--node`: that of a node agent; `--crashes`: functions that die in a Deployment's life; `--protocol [--seeds n|a-b] [--off rule] [--rules]`: seeds on the memory Store alone. */
import { parseArgs } from "node:util";
import { isKnown } from "./checks.ts";
import { liveRandomly } from "./crashes/life.ts";
import { CHOSEN_FAULTS } from "./losses.ts";
import { isRule, RULES } from "./rules.ts";
import type { Rule } from "./rules.ts";
import { protocolCommand } from "./protocol/command.ts";
import { simulateNode } from "./node/simulate-node.ts";
import { simulate } from "./world.ts";
import { messageOf } from "../../shared/kube/objects/errors.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    trace: { type: "boolean", default: false },
    off: { type: "string", default: "" },
    fault: { type: "string" },
    stop: { type: "boolean", default: false },
    stats: { type: "boolean", default: false },
    node: { type: "boolean", default: false },
    crashes: { type: "boolean", default: false },
    protocol: { type: "boolean", default: false },
    rules: { type: "boolean", default: false },
  },
});

const [first = 1, last = first] = (values.seeds ?? values.seed ?? "1").split("-").map(Number);
const names = values.off.split(",").filter((name) => name !== "");
const unknown = names.filter((name) => !isRule(name));
if (unknown.length > 0) throw new Error(`no such rule: ${unknown.join(", ")}; there are ${RULES.join(", ")}`);
const off: ReadonlySet<Rule> = new Set(names.filter(isRule));

const fault = CHOSEN_FAULTS.find((each) => each === values.fault);
if (values.fault !== undefined && !fault) throw new Error(`no such fault: ${values.fault}; there are ${CHOSEN_FAULTS.join(", ")}`);

if (values.protocol) {
  const { seeds, seed, stop, rules } = values;
  process.exit(await protocolCommand({ seeds, seed, off, stop, rules, print: console.log }));
}

const counts = new Map<string, { count: number; first: number }>();
const totals: Record<string, number> = {};
const startedAt = performance.now();
let failures = 0;
let done = 0;
process.on("SIGTERM", () => {
  summarise();
  process.exit(1);
});
for (let seed = first; seed <= last; seed++) {
  if (values.node || values.crashes) {
    await runAnother(seed);
    if (failures > 0 && values.stop) break;
    continue;
  }
  const result = await simulate({
    seed,
    ...(fault && { fault }),
    off,
    ...(values.trace && { trace: (line: string) => console.log(line) }),
  });
  done++;
  for (const { rule } of result.violations) {
    const known = counts.get(rule);
    counts.set(rule, { count: (known?.count ?? 0) + 1, first: known?.first ?? seed });
  }
  for (const [name, value] of Object.entries(result.stats)) totals[name] = (totals[name] ?? 0) + value;
  const bad = result.violations.filter(({ rule }) => !isKnown(rule));
  if (bad.length === 0) continue;
  failures++;
  console.log(`seed ${seed} (${result.mix}):`);
  for (const { rule, atMs, what } of bad.slice(0, 6)) console.log(`  ${rule} at ${(atMs / 1000).toFixed(3)} s: ${what}`);
  if (values.stop) break;
}
summarise();
process.exitCode = failures > 0 ? 1 : 0;
// Processes that died in a run never answer; nothing waits for them.
process.exit();

async function runAnother(seed: number): Promise<void> {
  done++;
  try {
    const { stats } = values.crashes
      ? await liveRandomly(seed, values.trace ? console.log : undefined)
      : await simulateNode(seed, values.trace ? console.log : undefined);
    for (const [name, value] of Object.entries(stats)) totals[name] = (totals[name] ?? 0) + value;
  } catch (error) {
    failures++;
    console.log(`seed ${seed}: ${messageOf(error)}`);
  }
}

function summarise(): void {
  console.log(`${done} seeds, ${failures} failed, ${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  for (const [rule, { count, first: seed }] of counts) console.log(`  ${rule}: ${count}, first at seed ${seed}`);
  if (values.stats) console.log(totals);
}
