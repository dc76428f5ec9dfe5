import { shareOf } from "../support/share.ts";

const COUNT = 42;
/** The share of a check begins here: every seventh seed from this one has the API server, the queues or processes fail alone, or all at once. It is thorough (world.ts). */
const FIRST = 4;

/** What both simulations run, that of the controllers and that of a node: in a check 6 of 42. */
export const SEEDS: readonly number[] = shareOf(
  Array.from({ length: COUNT }, (_, index) => ((index + FIRST - 1) % COUNT) + 1),
  6,
);

/** Seeds that once failed, and why; replayed by `npm run check`. Each has a test of its own beside the code that was at fault. */
export const FAILED_ONCE: readonly { readonly seed: number; readonly why: string }[] = [
  { seed: 126, why: "a manifest behind a lost message held its FIFO lane for ever, and no hole was seen" },
  { seed: 271, why: "a quota refusal gave up a name whose pod existed, unseen by a silent stream: a pod too many" },
  { seed: 7, why: "a resize was executed and answered 503, and the next sync sized the other ReplicaSets on a cache without it" },
  { seed: 80, why: "a fence was not raised for a conflict, and the second term under it was taken for repeats: shut for ever" },
];

/** Seeds that break a rule and are not fixed yet. Each test expects the violation, so it fails once the fault is fixed. */
export const OPEN: readonly { readonly seed: number; readonly why: string; readonly violation: string }[] = [];
