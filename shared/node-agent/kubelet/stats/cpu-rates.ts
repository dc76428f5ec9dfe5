/**
 * Computes CPU usage rates. Runtimes and kernels report only the total CPU time, so a rate needs two samples. Source:
 * pkg/kubelet/stats/cri_stats_provider.go getAndUpdateContainerUsageNanoCores. Differs from upstream: samples are taken on request; in
 * upstream, the eviction manager takes them every ten seconds.
 */

/** The total CPU time at one point in time. */
export interface CpuSample {
  readonly timestampMs: number;
  readonly nanoSeconds: number;
}

interface Rate {
  readonly from: CpuSample;
  readonly nanoCores?: number;
}

/** Minimum interval between samples. Over a shorter interval, a rate is too noisy, so the previous one is returned. */
const INTERVAL_MS_MIN = 1_000;

export class CpuRates {
  #rates: ReadonlyMap<string, Rate> = new Map();

  /** Replaces all samples. @returns the rates in nanocores of the ids that were also sampled before */
  seen(samples: readonly (readonly [id: string, sample: CpuSample])[]): ReadonlyMap<string, number> {
    this.#rates = new Map(samples.map(([id, sample]) => [id, next(this.#rates.get(id), sample)]));
    return new Map([...this.#rates].flatMap(([id, { nanoCores }]) => (nanoCores === undefined ? [] : [[id, nanoCores] as const])));
  }
}

/** A lower total belongs to another process, so the computation starts over. */
function next(before: Rate | undefined, sample: CpuSample): Rate {
  if (before === undefined || sample.nanoSeconds < before.from.nanoSeconds) return { from: sample };
  const intervalMs = sample.timestampMs - before.from.timestampMs;
  if (intervalMs < INTERVAL_MS_MIN) return before;
  return { from: sample, nanoCores: Math.round((sample.nanoSeconds - before.from.nanoSeconds) / (intervalMs / 1000)) };
}
