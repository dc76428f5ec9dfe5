/** `deltaloop explain FILE deploy/web`: what happened to it, what our controllers decide at each step, and by which reasons. */
import type { Command } from "commander";
import { createDigester } from "../shared/api/digest.ts";
import type { CaptureRecord } from "../shared/replay/capture.ts";
import { objectChanges } from "../shared/replay/explain/changes.ts";
import { storyOf } from "../shared/replay/explain/story.ts";
import type { Entry } from "../shared/replay/explain/story.ts";
import { replay } from "../shared/replay/replay.ts";
import type { ReplayedSync } from "../shared/replay/replay.ts";
import { consoleLog } from "./support/console-log.ts";
import { asJson, heading, told } from "./support/explain-text.ts";
import { functionHandlers } from "./support/functions.ts";
import { momentIn } from "./support/moment.ts";
import { printable, printableJson } from "./support/printable.ts";
import { readRecords } from "./support/read-records.ts";
import { subjectIn } from "./support/subject.ts";

interface ExplainFlags {
  readonly at?: string;
  readonly all?: true;
  readonly json?: true;
}

export function registerExplain(program: Command): void {
  program
    .command("explain")
    .description(
      "tell what happened to an object in a capture: what changed, what our controllers decide, why, and what was done then; sends nothing",
    )
    .argument("<file>", "a capture; gzip allowed")
    .argument("<object>", "deploy/web, rs/web-7f8fb, rc/web or pod/web-7f8fb-x2x4z; shop/deploy/web where its namespace must be told")
    .option("--at <time>", "only what led to that moment and what came next: +12.3s from the beginning, 10:02:11.5 or 2026-03-01T10:02:11Z")
    .option("--all", "also syncs that decide word for word what the one before did")
    .option("--json", "one JSON object per change and sync")
    .action(runExplain);
}

async function runExplain(file: string, object: string, flags: ExplainFlags): Promise<void> {
  const records = readRecords(file);
  const digester = createDigester("explain".padEnd(32));
  const changes = objectChanges(records, digester);
  const subject = subjectIn(object, changes);
  const startMs = records[0]?.atMs ?? 0;
  const atMs = flags.at === undefined ? undefined : momentIn("--at", flags.at, startMs, records.at(-1)?.atMs ?? startMs);
  const syncs = await syncsOf(records, digester);
  const story = storyOf(subject, changes, syncs);
  const entries = atMs === undefined ? story : around(story, atMs);
  if (!flags.json) process.stdout.write(heading(subject, records));
  const out = flags.json
    ? entries.map((entry) => `${printableJson(asJson(entry, startMs))}\n`)
    : told(entries, startMs, flags.all === true);
  for (const text of out) process.stdout.write(text);
  if (!flags.json && !entries.some(({ kind }) => kind === "sync"))
    process.stdout.write(`No sync of ours concerns ${printable(`${subject.namespace}/${subject.name}`)} here.\n`);
}

/** Each message once and in its order: what is explained is what the recorded order led to. */
async function syncsOf(records: readonly CaptureRecord[], digester: ReturnType<typeof createDigester>): Promise<readonly ReplayedSync[]> {
  const syncs: ReplayedSync[] = [];
  const options = { digester, seed: 1, log: consoleLog("", "error"), functions: functionHandlers, faults: () => ({}) };
  await replay(records, { ...options, onSync: (sync) => void syncs.push(sync) });
  return syncs;
}

/** What led to the last decision before that moment, and what came of it until the next one. */
function around(story: readonly Entry[], atMs: number): readonly Entry[] {
  const decides = (entry: Entry): boolean => entry.kind === "sync" && entry.sync.lines.some(({ kind }) => kind === "decided");
  const before = story.filter((entry) => entry.atMs <= atMs);
  const last = before.findLastIndex(decides);
  const previous = before.slice(0, Math.max(0, last)).findLastIndex(decides);
  const next = story.findIndex((entry, index) => index >= before.length && decides(entry));
  return story.slice(previous + 1, next === -1 ? story.length : next + 1);
}
