/** The history that `explain --all` prints: a replay of the object's owner tree. Loaded only when it is printed. */
import { UsageError } from "@deltaloop/base";
import { consoleLog, printable } from "@deltaloop/base/output";
import { createDigester } from "@deltaloop/kube/pod-template";
import { ALL_RELEASES } from "@deltaloop/kube/releases";
import type { ReleaseAt } from "@deltaloop/kube/releases";
import type { Capture } from "@deltaloop/replay/capture";
import { ChangeTracker, storyOf, summaryOf } from "@deltaloop/replay/explain";
import type { Entry, Family, ObjectChange, Subject } from "@deltaloop/replay/explain";
import { replay } from "@deltaloop/replay/replay";
import type { ReplayedSync } from "@deltaloop/replay/replay";
import { functionHandlers } from "../functions/functions.ts";
import { objectText } from "../output/output-option.ts";
import type { OutputFormat } from "../output/output-option.ts";
import { withProgress } from "../output/terminal.ts";
import { asJson, heading, LEGEND, storyText } from "./explain-text.ts";
import { objectName } from "./subject.ts";
import { summaryJson, summaryText } from "./summary-text.ts";

interface StoryOptions {
  readonly family: Family;
  /** Limits the history to the steps before this time and the next one. */
  readonly atMs: number | undefined;
  readonly output: OutputFormat | undefined;
  readonly repeats: boolean;
  /** The release of the recorded cluster. */
  readonly release: ReleaseAt | undefined;
}

export async function printStory(capture: Capture, subject: Subject, options: StoryOptions): Promise<void> {
  const { atMs, output, repeats } = options;
  const { startMs } = capture;
  const object = objectName(subject.resource, subject.name);
  const { changes, syncs } = await withProgress(`Replaying ${object}`, storyIn(capture, object, options));
  const story = storyOf(subject, changes, syncs);
  const entries = atMs === undefined ? story : around(story, atMs);
  const summary = summaryOf(subject, story);
  const out = output
    ? [summaryJson(summary, startMs), ...entries.map((entry) => asJson(entry, startMs))].map((line) => objectText(line, output))
    : ["\n", heading(subject, capture), summaryText(subject, summary, startMs), LEGEND, ...storyText(entries, capture, repeats)];
  for (const text of out) process.stdout.write(text);
  if (!output && !entries.some(({ kind }) => kind === "sync"))
    process.stdout.write(`This recording has no sync of deltaloop's controllers for ${printable(object)}.\n`);
}

/** Limit of changes and syncs in one history, which is held in memory. */
const STORY_MAX = 100_000;

interface Recording {
  readonly changes: ObjectChange[];
  readonly syncs: ReplayedSync[];
}

/** Delivers each message once and in the recorded order. @throws {UsageError} beyond STORY_MAX */
async function storyIn(capture: Capture, object: string, { family, release }: StoryOptions): Promise<Recording> {
  const digester = createDigester("explain".padEnd(32), ALL_RELEASES);
  const changes = new ChangeTracker(digester);
  const story: Recording = { changes: [], syncs: [] };
  const isTooLong = (): boolean => story.changes.length + story.syncs.length > STORY_MAX;
  await replay(capture, {
    ...{ digester, seed: 1, log: consoleLog("", "error"), functions: functionHandlers, faults: () => ({}), ...(release && { release }) },
    holds: (record) => family.dependsOn(record),
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

/** Returns the entries after the second last decision before the time, up to the first decision after it. */
function around(story: readonly Entry[], atMs: number): readonly Entry[] {
  const decides = (entry: Entry): boolean => entry.kind === "sync" && entry.sync.lines.some(({ kind }) => kind === "decided");
  const before = story.filter((entry) => entry.atMs <= atMs);
  const last = before.findLastIndex(decides);
  const previous = before.slice(0, Math.max(0, last)).findLastIndex(decides);
  const next = story.findIndex((entry, index) => index >= before.length && decides(entry));
  return story.slice(previous + 1, next === -1 ? story.length : next + 1);
}
