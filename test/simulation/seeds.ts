import { shareOf } from "../support/share.ts";
import type { ChosenFault } from "./losses.ts";

/**
 * The first seed of `check`, a thorough one (world.ts). Any seven consecutive seeds include runs in which only the API server, the queues
 * or processes fail, and runs in which all of them fail.
 */
const FIRST = 4;

function fixed(count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => ((index + FIRST - 1) % count) + 1);
}

/** The fixed seeds of the simulation; `check` runs 6 of 200. */
export const SEEDS: readonly number[] = shareOf(fixed(200), 6);

/** The seeds of the simulation of a node; `check` runs 6 of 42. */
export const NODE_SEEDS: readonly number[] = shareOf(fixed(42), 6);

const FRESH = 100;
/** Seeds that differ in each run; `check` runs 2 of 100. Products of a seed and the constants in world.ts are exact integers. */
export const FRESH_SEEDS: readonly number[] = shareOf(
  Array.from({ length: FRESH }, (_, index) => 10_000_000 + (Math.floor(Date.now() / 1_000) % 200_000) * FRESH + index),
  2,
);

/** Seeds that once failed, with the reason; `npm run check` replays them. Each fixed bug also has a unit test. */
export const FAILED_ONCE: readonly { readonly seed: number; readonly fault?: ChosenFault; readonly why: string }[] = [
  { seed: 126, why: "a manifest after a lost message blocked its FIFO lane forever, and the gap was not detected" },
  {
    seed: 271,
    why: "a create rejected by a quota released the name of a pod that existed but that the stalled stream had not delivered: one surplus pod",
  },
  {
    seed: 7,
    why: "a scale request was executed but answered 503, and the next sync scaled the other ReplicaSets based on a cache without it",
  },
  {
    seed: 80,
    why: "a fence was not raised after a conflict, and messages of the second term with it counted as redelivered: the gate stayed closed forever",
  },
  {
    seed: 1_001_352,
    fault: "rewind",
    why: "a run that the set-back Store did not know cached its status over an unseen change, and its requeue was dropped: two pods too many forever",
  },
  {
    seed: 1_003_624,
    fault: "rewind",
    why: "the check counted a pod whose release a webhook had rejected with 422, which upstream ignores",
  },
  {
    seed: 1_005_277,
    fault: "rewind",
    why: "the check counted a late delete that the server rejects, because the pod was adopted since it was decided",
  },
  {
    seed: 1_006_296,
    fault: "rewind",
    why: "a create answered 429 was repeated under another name, and the set-back Store drew the first one again: one surplus pod",
  },
  {
    seed: 1_008_692,
    fault: "rewind",
    why: "a quota's rejection quoted the pod's name, so the next create had another; executed late, it was beside the pod that the set-back Store had named",
  },
  {
    seed: 49_010,
    why: "keys of the Store were deleted: the new epoch drew other names, and a create of the old epoch was executed late, which the check now expects",
  },
];
