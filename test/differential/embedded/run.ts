/**
 * `node test/differential/embedded/run.ts [--seeds n | --seeds a-b] [--schemas n | --schemas a-b]`: the in-memory API server beside a real
 * one. Random sequences of managers, and random CustomResourceDefinitions with objects. What differs is printed. Exit code 1: a difference
 * that known.ts does not list.
 */
import { parseArgs } from "node:util";
import { type Answer, differencesOf, type Request } from "./servers.ts";
import { playSequence } from "./sequences.ts";
import { startServers } from "./start.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1-300" },
    schemas: { type: "string", default: "1-60" },
    trace: { type: "boolean", default: false },
  },
});
const REPORTS_MAX = 8;

function trace(kind: string, { request, answer }: { readonly request: Request; readonly answer: Answer }): void {
  console.log(
    `${kind}: ${request.method} ${request.path} ${JSON.stringify(request.body)}\n  ${answer.code} ${JSON.stringify(answer.body)}`,
  );
}

function rangeOf(text: string): readonly [number, number] {
  const [first = 1, last = first] = text.includes("-") ? text.split("-").map(Number) : [1, Number(text)];
  return [first, last];
}

const { servers, stop } = await startServers();
let differences = 0;
try {
  const [first, last] = rangeOf(values.seeds);
  for (let seed = first; seed <= last; seed += 1) {
    const difference = await playSequence(servers, seed, values.trace ? trace : undefined);
    if (difference === undefined) continue;
    differences += 1;
    if (differences > REPORTS_MAX) continue;
    const { step, request, real, ours } = difference;
    console.log(`seed ${seed}, step ${step}: ${request.method} ${request.path} ${JSON.stringify(request.body)}`);
    for (const line of differencesOf(real, ours)) console.log(`  ${line}`);
  }
  console.log(`${last - first + 1} sequences, ${differences} different`);
} finally {
  await stop();
}
process.exitCode = differences > 0 ? 1 : 0;
