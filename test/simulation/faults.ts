/** The kinds of faults of a run and their rates: drawn once from the seed, active only while `active`. */
import type { DeltaQueueFaults } from "../../shared/store/memory/queue/delta-queue.ts";
import type { DoorbellFaults } from "../../shared/store/memory/queue/doorbells.ts";
import type { Random } from "../../shared/base/random.ts";

export interface Mix {
  readonly name: string;
  /** The delta queue preserves the order of a lane, as FIFO queues do. */
  readonly fifo: boolean;
  /** Share of API calls that are lost, answered late or rejected. */
  readonly api: number;
  readonly watch: number;
  readonly deltas: DeltaQueueFaults;
  readonly doorbells: DoorbellFaults;
  /** Share of responses after which a function's process is killed or paused. */
  readonly crash: number;
  readonly freeze: number;
  readonly watcherCrash: number;
  /** Share of Store calls whose request or response is lost. */
  readonly store: number;
  /** The Store is sometimes slow, also between bursts, so that the lookups are outdated when they are applied. */
  readonly slow: boolean;
}

const NONE: Mix = {
  name: "none",
  fifo: true,
  api: 0,
  watch: 0,
  deltas: {},
  doorbells: {},
  crash: 0,
  freeze: 0,
  watcherCrash: 0,
  store: 0,
  slow: false,
};
const LOSSY_QUEUES = {
  deltas: { duplicate: 0.2, delay: 0.2, drop: 0.004, refuse: 0.05, unanswered: 0.05 },
  doorbells: { drop: 0.2, duplicate: 0.2, delay: 0.2, reorder: 0.5, unanswered: 0.05 },
};

/** Draws the faults: a third of all runs combine all kinds, and the others have one kind each, which makes a cause easier to find. */
export function drawMix(random: Random): Mix {
  const mix = drawFaults(random);
  return mix.name === "none" ? mix : { ...mix, slow: random.next() < 0.25 };
}

function drawFaults(random: Random): Mix {
  const fifo = random.next() < 0.5;
  const api = [0.02, 0.06, 0.2][Math.floor(random.next() * 3)] ?? 0.06;
  const roll = random.next();
  const base = { ...NONE, fifo };
  if (roll < 0.06) return { ...NONE, name: "none" };
  if (roll < 0.1) return { ...base, name: "order" };
  if (roll < 0.22) return { ...base, name: "api", api, watch: 0.05 };
  if (roll < 0.34) return { ...base, name: "queues", ...LOSSY_QUEUES };
  if (roll < 0.46) return { ...base, name: "crashes", crash: 0.012, freeze: 0.006, api: 0.02 };
  if (roll < 0.54) return { ...base, name: "watcher", watch: 0.1, watcherCrash: 0.002 };
  if (roll < 0.64) return { ...base, name: "store", store: 0.02 };
  return {
    ...base,
    name: "all",
    api,
    watch: 0.05,
    ...LOSSY_QUEUES,
    crash: 0.012,
    freeze: 0.006,
    watcherCrash: 0.001,
    store: random.next() < 0.3 ? 0.01 : 0,
  };
}
