/** `deltaloop explain FILE deploy/web`: what happened to it, what our controllers decide at each step, and by which reasons. */
import type { Command } from "commander";
import { createDigester } from "@deltaloop/kube/pod-template";
import type { Capture } from "@deltaloop/replay/capture";
import { ToldChanges, FamilyCensus, storyOf, summaryOf } from "@deltaloop/replay/explain";
import type { ObjectChange, Family, Entry } from "@deltaloop/replay/explain";
import { replay } from "@deltaloop/replay/replay";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { consoleLog, printable, printableJson } from "@deltaloop/base/output";
import { asJson, heading, LEGEND, told } from "./explain/explain-text.ts";
import { functionHandlers } from "./functions/functions.ts";
import { momentIn } from "./command/moment.ts";
import { openRecords, sparingMemory } from "./capture/read-records.ts";
import { subjectIn, wantedBy } from "./explain/subject.ts";
import { summaryJson, summaryText } from "./explain/summary-text.ts";
import { UsageError } from "@deltaloop/base";

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
    .argument("<file>", "a capture, gzip allowed; up to 24 hours and 16 GiB unpacked, of which 256 MiB may stand there at one time")
    .argument("<object>", "deploy/web, rs/web-7f8fb, rc/web or pod/web-7f8fb-x2x4z; shop/deploy/web where its namespace must be told")
    .option("--at <time>", "only what led to that moment and what came next: +12.3s from the beginning, 10:02:11.5 or 2026-03-01T10:02:11Z")
    .option("--all", "also syncs that decide word for word what the one before did, and every reason each time")
    .option("--json", "one JSON object per line: the summary, then each change and sync")
    .action(runExplain);
}

/** Changes and syncs of one story, which is put together in memory. */
const STORY_MAX = 100_000;

async function runExplain(file: string, object: string, flags: ExplainFlags): Promise<void> {
  const census = new FamilyCensus([wantedBy(object)]);
  sparingMemory(file);
  const capture = await openRecords(file, census);
  const subject = subjectIn(object, census);
  const { startMs, endMs } = capture;
  const atMs = flags.at === undefined ? undefined : momentIn("--at", flags.at, startMs, endMs);
  const { changes, syncs } = await storyIn(capture, census.familyOf(subject), object);
  const story = storyOf(subject, changes, syncs);
  const entries = atMs === undefined ? story : around(story, atMs);
  const summary = summaryOf(subject, story);
  const out = flags.json
    ? [summaryJson(summary, startMs), ...entries.map((entry) => asJson(entry, startMs))].map((line) => `${printableJson(line)}\n`)
    : [heading(subject, capture), summaryText(subject, summary, startMs), LEGEND, ...told(entries, capture, flags.all === true)];
  for (const text of out) process.stdout.write(text);
  if (!flags.json && !entries.some(({ kind }) => kind === "sync"))
    process.stdout.write(`No sync of ours concerns ${printable(`${subject.namespace}/${subject.name}`)} here.\n`);
}

interface Told {
  readonly changes: ObjectChange[];
  readonly syncs: ReplayedSync[];
}

/** Each message once and in its order: what is explained is what the recorded order led to. @throws {UsageError} beyond STORY_MAX */
async function storyIn(capture: Capture, family: Family, object: string): Promise<Told> {
  const digester = createDigester("explain".padEnd(32));
  const toldChanges = new ToldChanges(digester);
  const story: Told = { changes: [], syncs: [] };
  const isTooLong = (): boolean => story.changes.length + story.syncs.length > STORY_MAX;
  await replay(capture, {
    ...{ digester, seed: 1, log: consoleLog("", "error"), functions: functionHandlers, faults: () => ({}) },
    see: (records) => {
      for (const record of records) if (family.has(record)) story.changes.push(...toldChanges.of(record));
    },
    onSync: (sync) => {
      if (family.concerns(sync)) story.syncs.push(sync);
    },
    goesOn: () => Promise.resolve(!isTooLong()),
  });
  if (isTooLong())
    throw new UsageError(
      `${object}: its story has more than ${STORY_MAX} changes and syncs; ask for one of its ReplicaSets or pods, or capture into several files`,
    );
  return story;
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
