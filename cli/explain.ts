/** `deltaloop explain FILE deploy/web`: what happened to an object, what our controllers decide at each step, and why. */
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { addOutputOption, objectText } from "./output/output-option.ts";
import type { OutputFormat } from "./output/output-option.ts";
import { recordedReleaseOption } from "./capture/recorded-release.ts";
import type { RecordedReleaseFlag } from "./capture/recorded-release.ts";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import type { Capture } from "@deltaloop/replay/capture";
import { ChangeTracker, FamilyCensus, storyOf, summaryOf } from "@deltaloop/replay/explain";
import type { ObjectChange, Family, Entry } from "@deltaloop/replay/explain";
import { replay } from "@deltaloop/replay/replay";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { consoleLog, printable } from "@deltaloop/base/output";
import { asJson, heading, LEGEND, storyText } from "./explain/explain-text.ts";
import { functionHandlers } from "./functions/functions.ts";
import { momentIn } from "./command/moment.ts";
import { openRecords, sparingMemory } from "./capture/read-records.ts";
import { objectName, subjectIn, wantedBy } from "./explain/subject.ts";
import { summaryJson, summaryText } from "./explain/summary-text.ts";
import { withProgress } from "./output/terminal.ts";
import { UsageError } from "@deltaloop/base";

interface ExplainFlags extends RecordedReleaseFlag {
  readonly at?: string;
  readonly all?: true;
  readonly output?: OutputFormat;
  readonly namespace?: string;
}

export function registerExplain(program: Command): void {
  const command = program
    .command("explain")
    .description("Explains what happened to an object in a capture, and why.")
    .argument("<file>", "capture, gzip or not; up to 24 hours and 16 GiB unpacked, with up to 256 MiB of objects at a time")
    .argument(
      "<object...>",
      "object as for kubectl: deploy/web, deploy web, deployment.apps/web, rs/web-7f8fb, rc/web or pod/web-7f8fb-x2x4z",
    )
    .option("-n, --namespace <name>", "namespace of the object, if objects of several namespaces have the name")
    .option("--at <time>", "print only what led to this moment and what came next: +12.3s, 10:02:11.5 or 2026-03-01T10:02:11Z")
    .option("--all", "print repeated syncs and repeated reasons too")
    .addOption(recordedReleaseOption());
  withDetails(addOutputOption(command, "the summary and each change and sync").action(runExplain), {
    notes: [
      "Prints the recorded changes, what our controllers decide at each step, by which rule, and what was done in the recording. Sends nothing to a cluster.",
    ],
    examples: [
      "explain rollout.jsonl.gz deploy/web",
      "explain rollout.jsonl.gz deploy web -n shop --at +12.3s",
      "explain rollout.jsonl.gz rs/web-7f8fb -o yaml",
    ],
  });
}

/** Changes and syncs of one story, which is held in memory. */
const STORY_MAX = 100_000;

async function runExplain(file: string, words: readonly string[], flags: ExplainFlags): Promise<void> {
  const object = words.join("/");
  const { output, namespace } = flags;
  const census = new FamilyCensus([wantedBy(object, namespace)]);
  sparingMemory(file);
  const capture = await openRecords(file, census);
  const subject = subjectIn(object, census, namespace);
  const { startMs, endMs } = capture;
  const atMs = flags.at === undefined ? undefined : momentIn("--at", flags.at, startMs, endMs);
  const { changes, syncs } = await withProgress(`Replaying ${file}`, storyIn(capture, census.familyOf(subject), object, flags));
  const story = storyOf(subject, changes, syncs);
  const entries = atMs === undefined ? story : around(story, atMs);
  const summary = summaryOf(subject, story);
  const out = output
    ? [summaryJson(summary, startMs), ...entries.map((entry) => asJson(entry, startMs))].map((line) => objectText(line, output))
    : [heading(subject, capture), summaryText(subject, summary, startMs), LEGEND, ...storyText(entries, capture, flags.all === true)];
  for (const text of out) process.stdout.write(text);
  if (!output && !entries.some(({ kind }) => kind === "sync"))
    process.stdout.write(`No sync of our controllers concerns ${printable(objectName(subject.resource, subject.name))} here.\n`);
}

interface Recording {
  readonly changes: ObjectChange[];
  readonly syncs: ReplayedSync[];
}

/** Delivers each message once and in the recorded order. @throws {UsageError} beyond STORY_MAX */
async function storyIn(capture: Capture, family: Family, object: string, { kubernetes: release }: RecordedReleaseFlag): Promise<Recording> {
  const digester = createDigester("explain".padEnd(32), ALL_RELEASES);
  const changes = new ChangeTracker(digester);
  const story: Recording = { changes: [], syncs: [] };
  const isTooLong = (): boolean => story.changes.length + story.syncs.length > STORY_MAX;
  await replay(capture, {
    ...{ digester, seed: 1, log: consoleLog("", "error"), functions: functionHandlers, faults: () => ({}), ...(release && { release }) },
    see: (records) => {
      for (const record of records) if (family.has(record)) story.changes.push(...changes.of(record));
    },
    onSync: (sync) => {
      if (family.concerns(sync)) story.syncs.push(sync);
    },
    goesOn: () => Promise.resolve(!isTooLong()),
  });
  if (isTooLong())
    throw new UsageError(
      `${object}: more than ${STORY_MAX} changes and syncs: explain one of its ReplicaSets or pods, or rotate the capture`,
    );
  return story;
}

/** From the decision before the last one at that moment to the next one. */
function around(story: readonly Entry[], atMs: number): readonly Entry[] {
  const decides = (entry: Entry): boolean => entry.kind === "sync" && entry.sync.lines.some(({ kind }) => kind === "decided");
  const before = story.filter((entry) => entry.atMs <= atMs);
  const last = before.findLastIndex(decides);
  const previous = before.slice(0, Math.max(0, last)).findLastIndex(decides);
  const next = story.findIndex((entry, index) => index >= before.length && decides(entry));
  return story.slice(previous + 1, next === -1 ? story.length : next + 1);
}
