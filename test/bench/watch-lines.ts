/**
 * The watcher's own cost per event: parsing and stripping a line of about 5 KB. Rounds alternate with rounds of JSON.parse alone on the
 * same lines, so that the ratio is meaningful on a busy machine, too.
 */
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import { parseWatchLine } from "../../shared/kube/list-watch/watch-line.ts";
import { watchLines } from "./objects.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const LINES = 4_000;
const ROUNDS = 15;
/** design.md, *Speed*: JSON.parse of 5 KB lines, per second. */
const PARSE_SPIKE = { name: "design.md: JSON.parse 42,000", value: 42_000 };

export function bench(): readonly BenchResult[] {
  const lines = watchLines(LINES);
  const megabytes = lines.reduce((sum, line) => sum + Buffer.byteLength(line), 0) / 1e6;
  const digester = createDigester("bench");
  const read = (line: string): string => {
    const event = parseWatchLine(line);
    if (event.kind !== "change") throw new Error(event.kind);
    return strip("pods", event.object, digester).uid;
  };
  const parse = (line: string): unknown => JSON.parse(line);
  const [ours, bare]: [number[], number[]] = [[], []];
  for (let round = -2; round < ROUNDS; round++) {
    const rates = [perSecond(lines, read), perSecond(lines, parse)] as const;
    if (round < 0) continue; // warm-up rounds
    ours.push(rates[0]);
    bare.push(rates[1]);
  }
  const parsed = benchResult("JSON.parse of the same lines", "events/s", bare, PARSE_SPIKE);
  const size = `${Math.round((megabytes * 1e6) / LINES)} bytes`;
  return [
    benchResult(`watch lines of ${size}, parsed and stripped`, "events/s", ours, {
      name: "a bare JSON.parse of them",
      value: parsed.value,
    }),
    benchResult(
      `watch lines of ${size}, parsed and stripped, by size`,
      "MB/s",
      ours.map((rate) => (rate / LINES) * megabytes),
    ),
    parsed,
  ];
}

let sink: unknown;

function perSecond(lines: readonly string[], work: (line: string) => unknown): number {
  const start = performance.now();
  for (const line of lines) sink = work(line);
  const ms = performance.now() - start;
  if (sink === undefined) throw new Error("nothing was done");
  return (lines.length / ms) * 1_000;
}
