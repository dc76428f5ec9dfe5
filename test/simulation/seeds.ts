import { shareOf } from "../support/share.ts";

const COUNT = 42;
/**
 * The first seed of `check`, a thorough one (world.ts). Any seven consecutive seeds include runs in which only the API server, the queues
 * or processes fail, and runs in which all of them fail.
 */
const FIRST = 4;

/** The seeds of both simulations, of controllers and of a node: `check` runs 6 of 42. */
export const SEEDS: readonly number[] = shareOf(
  Array.from({ length: COUNT }, (_, index) => ((index + FIRST - 1) % COUNT) + 1),
  6,
);

/** Seeds that once failed, with the reason; `npm run check` replays them. Each fixed bug also has a unit test. */
export const FAILED_ONCE: readonly { readonly seed: number; readonly why: string }[] = [
  { seed: 126, why: "a manifest behind a lost message held its FIFO lane for ever, and no hole was seen" },
  { seed: 271, why: "a quota refusal gave up a name whose pod existed, unseen by a silent stream: a pod too many" },
  { seed: 7, why: "a resize was executed and answered 503, and the next sync sized the other ReplicaSets on a cache without it" },
  { seed: 80, why: "a fence was not raised for a conflict, and the second term under it was taken for repeats: shut for ever" },
];

/** Seeds that violate a rule and are not fixed yet. Each test expects the violation, so it fails once the bug is fixed. */
export const OPEN: readonly { readonly seed: number; readonly why: string; readonly violation: string }[] = [];
