/** Recorded clusters at sampled changes (wake-ups.ts): if a change makes a key's sync write something else, it must enqueue that key. */
import { afterAll, describe, expect, it } from "vitest";

import { shareOf } from "../support/share.ts";
import { readRecording } from "./shadow.ts";
import { wakeUpsAt } from "./wake-ups.ts";

const CAPTURES = [
  "rolling-update",
  "rollover",
  "recreate",
  "pause-resume",
  "undo",
  "not-ready-first",
  "controller",
  "settled",
  "owner-deleted",
  "replica-set-deleted",
  "refused",
  "adopted",
  "controller-refused",
  "adopt-release",
  "rc-quota",
  "scale-up-down",
];
/**
 * When the last running pod of a Recreate Deployment ends, its rollout can continue. Upstream and ours enqueue the Deployment when a pod is
 * deleted, not when it ends. Here, the ReplicaSet's status enqueues it 6 ms later.
 */
const LEFT_TO_THE_NEXT: Readonly<Record<string, readonly string[]>> = { "recreate 50": ["deployment web"] };
/** Cuts per capture: in the project `long`, and in `check`. */
const [CUTS, CUTS_CHECKED] = [80, 4];

describe.each(CAPTURES)("affected keys of %s", (name) => {
  const recording = readRecording(name);
  const step = Math.max(1, recording.changes.length / CUTS);
  const cuts = Array.from({ length: Math.min(CUTS, recording.changes.length) }, (_, i) => Math.floor(i * step));
  let [needed, queued] = [0, 0];
  afterAll(() => void process.stderr.write(`      measured: ${name}: ${needed} wake-ups needed, ${queued} made\n`));

  it.each(shareOf(cuts, CUTS_CHECKED))("change %i enqueues exactly the affected keys", async (index) => {
    const wakeUps = await wakeUpsAt(recording, index);
    needed += wakeUps.needed.length;
    queued += wakeUps.queued.length;
    expect(wakeUps.needed.filter((key) => !wakeUps.queued.includes(key))).toEqual(LEFT_TO_THE_NEXT[`${name} ${index}`] ?? []);
    expect(wakeUps.strangers).toEqual([]);
  });
});
