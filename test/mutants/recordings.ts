/**
 * Prints as one line of JSON the findings of `deltaloop shadow` for test/captures: how many of upstream's writes are unexplained, how many
 * are explained only by an older state (with a window of zero they are unexplained), how many writes ours would have sent while upstream
 * was at rest, and the rules that `deltaloop explain` cites for those syncs. Runs in a copy.
 */
import { join } from "node:path";

import { functionHandlers } from "../../cli/functions/functions.ts";
import { sectionOf } from "../../cli/explain/reason-words.ts";
import { replay } from "../../shared/replay/engine/replay.ts";
import type { ReplayedSync } from "../../shared/replay/engine/sync-log.ts";
import type { SyncPlace } from "../../shared/replay/shadow/one-sync.ts";
import { silentLog } from "../support/silent-log.ts";
import { readRecording } from "../golden/shadow.ts";
import { differencesIn, recordingNames } from "./differences.ts";
import type { Difference } from "./differences.ts";
import { heldCapture, readCapture, shadow } from "../support/held-capture.ts";

/** Window in ms: a write may be based on a state of this age. A state without changes for a second counts as a state at rest. */
const NEAR_MS = 1_000;

const folder = join(import.meta.dirname, "../captures");
let [unexplained, older, atRest] = [0, 0, 0];
const seen: { readonly at: string; readonly cited: readonly string[] }[] = [];
for (const name of recordingNames()) {
  const differences: Difference[] = [];
  const { changes, place } = readRecording(name);
  for await (const finding of shadow(changes, place)) {
    const found = differencesIn(finding);
    if (finding.kind !== "rest" && finding.verdict.kind === "older") older++;
    if (finding.kind === "rest") atRest += found.length;
    else unexplained += found.length;
    differences.push(...found);
  }
  if (differences.length === 0) continue;
  const syncs = await syncsOf(name, place);
  for (const difference of differences)
    seen.push({ at: `${name} ${difference.controller} ${difference.key} ${difference.atMs}`, cited: sectionsAt(difference, syncs) });
}
process.stdout.write(`${JSON.stringify({ unexplained, older, atRest, seen })}\n`);

/** Replays the syncs as `explain` does. */
async function syncsOf(name: string, { digester, release }: SyncPlace): Promise<readonly ReplayedSync[]> {
  const syncs: ReplayedSync[] = [];
  const options = {
    digester,
    ...(release && { release }),
    seed: 1,
    log: silentLog,
    functions: functionHandlers,
    faults: (): object => ({}),
  };
  const capture = heldCapture(readCapture(join(folder, `${name}.watch.jsonl.gz`)));
  await replay(capture, { ...options, onSync: (sync) => void syncs.push(sync) });
  return syncs;
}

/** The cited sections of the syncs of that key. */
function sectionsAt({ atMs, controller, key }: Difference, syncs: readonly ReplayedSync[]): readonly string[] {
  const near = syncs.filter((sync) => sync.controller === controller && sync.key === key && Math.abs(sync.atMs - atMs) <= NEAR_MS);
  const cited = near.flatMap(({ lines }) =>
    lines.flatMap((line) => (line.kind === "reason" ? [sectionOf(controller, line.reason) ?? "none"] : [])),
  );
  return [...new Set(cited)];
}
