/**
 * The watcher's own cost per event: parsing and stripping a line of about 5 KB. Rounds alternate with rounds of JSON.parse alone on the
 * same lines, so that the ratio is meaningful on a busy machine, too. Then the list of 20,000 such pods, from the bytes of the response to
 * the cached objects, as JSON and as protobuf by turns.
 */
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { POD_FIELDS } from "../../shared/kube/strip/pod-fields.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import { createFrameSplitter } from "../../shared/kube/http/frame-splitter.ts";
import { createLineSplitter } from "../../shared/kube/http/line-splitter.ts";
import type { WatchFrame } from "../../shared/kube/client/kube.ts";
import { encodeEvent, framed } from "../support/protobuf-encoder.ts";
import { parseWatchLine } from "../../shared/kube/list-watch/watch-line.ts";
import { watchLines } from "./objects.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const LINES = 4_000;
const ROUNDS = 15;
const PODS = 20_000;
const LIST_ROUNDS = 7;
/** What a TLS socket delivers at once. */
const CHUNK_BYTES = 16 * 1024;
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
    ...lists(lines),
  ];
}

/** CPU time of both, because other work on the machine does not add to it. */
function lists(lines: readonly string[]): readonly BenchResult[] {
  const digester = createDigester("bench");
  const frames = lines.map((line) => framed(encodeEvent("ADDED", "Pod", (JSON.parse(line) as { readonly object: object }).object)));
  const json = chunksOf(lines.map((line) => Buffer.from(`${line}\n`)));
  const protobuf = chunksOf(frames);
  const read = (chunks: readonly Buffer[], splitter: { readonly push: (chunk: Buffer) => readonly WatchFrame[] }): number => {
    let pods = 0;
    const start = process.cpuUsage();
    while (pods < PODS)
      for (const chunk of chunks)
        for (const frame of splitter.push(chunk)) {
          const event = parseWatchLine(frame, POD_FIELDS);
          if (event.kind !== "change") throw new Error(event.kind);
          sink = strip("pods", event.object, digester);
          pods += 1;
        }
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1_000;
  };
  const [ofJson, ofProtobuf]: [number[], number[]] = [[], []];
  for (let round = -1; round < LIST_ROUNDS; round++) {
    const ms = [read(json, createLineSplitter()), read(protobuf, createFrameSplitter())] as const;
    if (round < 0) continue; // a warm-up round
    ofJson.push(ms[0]);
    ofProtobuf.push(ms[1]);
  }
  const sizeOf = (chunks: readonly Buffer[]): string =>
    `${Math.round(chunks.reduce((sum, { length }) => sum + length, 0) / lines.length)} bytes`;
  const asJson = benchResult(`CPU to read ${PODS} pods of ${sizeOf(json)} as JSON`, "ms", ofJson);
  const against = { name: "the same pods as JSON", value: asJson.value };
  return [asJson, benchResult(`CPU to read ${PODS} pods of ${sizeOf(protobuf)} as protobuf`, "ms", ofProtobuf, against)];
}

function chunksOf(parts: readonly Buffer[]): readonly Buffer[] {
  const all = Buffer.concat(parts);
  return Array.from({ length: Math.ceil(all.length / CHUNK_BYTES) }, (_, i) => all.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES));
}

let sink: unknown;

function perSecond(lines: readonly string[], work: (line: string) => unknown): number {
  const start = performance.now();
  for (const line of lines) sink = work(line);
  const ms = performance.now() - start;
  if (sink === undefined) throw new Error("nothing was done");
  return (lines.length / ms) * 1_000;
}
