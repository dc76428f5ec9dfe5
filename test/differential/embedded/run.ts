/**
 * `node test/differential/embedded/run.ts [--seeds n | --seeds a-b] [--schemas n | --schemas a-b]`: compares the in-memory API server with
 * a real one: random sequences of writes by several managers, and random CustomResourceDefinitions with objects. Prints the differences;
 * exits with 1 if known.ts does not list one of them.
 */
import { parseArgs } from "node:util";
import { type Answer, differencesOf, type Request } from "./servers.ts";
import { isKnown } from "./known.ts";
import { compareSchemas } from "./schemas.ts";
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
const SCHEMA_REPORTS_MAX = 25;

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
    if (difference === undefined || isKnown(difference)) continue;
    differences += 1;
    if (differences > REPORTS_MAX) continue;
    const { step, request, real, ours } = difference;
    console.log(`seed ${seed}, step ${step}: ${request.method} ${request.path} ${JSON.stringify(request.body)}`);
    for (const line of differencesOf(real, ours)) console.log(`  ${line}`);
  }
  console.log(`${Math.max(0, last - first + 1)} sequences, ${differences} different`);
  const [firstSchema, lastSchema] = rangeOf(values.schemas);
  const result = await compareSchemas(
    servers,
    Array.from({ length: Math.max(0, lastSchema - firstSchema + 1) }, (_, i) => firstSchema + i),
  );
  const unknown = result.differences.filter((difference) => !isKnown(difference));
  for (const { seed, step, request, real, ours } of unknown.slice(0, SCHEMA_REPORTS_MAX)) {
    console.log(`schema ${seed}, ${step}: ${request.method} ${request.path} ${JSON.stringify(request.body)}`);
    for (const line of differencesOf(real, ours)) console.log(`  ${line}`);
  }
  const { requests, refused } = result;
  console.log(
    `${lastSchema - firstSchema + 1} schemas (${refused} refused), ${requests} requests, ${unknown.length} different, ${result.differences.length - unknown.length} known`,
  );
  differences += unknown.length;
} finally {
  await stop();
}
process.exitCode = differences > 0 ? 1 : 0;
