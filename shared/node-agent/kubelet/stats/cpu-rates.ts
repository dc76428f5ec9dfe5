/**
 * How much of a processor something uses: runtimes and kernels count time alone, so the rate is between two looks.
 *
 * Source: pkg/kubelet/stats/cri_stats_provider.go getAndUpdateContainerUsageNanoCores. Differs from upstream: the looks are those of
 * whoever asks, and not the ones of eviction each ten seconds.
 */

/** Time that was used until a moment. */
export interface CpuSample {
  readonly timestampMs: number;
  readonly nanoSeconds: number;
}

interface Rate {
  readonly from: CpuSample;
  readonly nanoCores?: number;
}

/** A shorter look would be more noise than rate: until then the rate before it counts. */
const LOOK_MS_MIN = 1_000;

export class CpuRates {
  #rates: ReadonlyMap<string, Rate> = new Map();

  /** All that there is now. @returns the rate, in billionths of a processor, of what was seen before */
  seen(samples: readonly (readonly [id: string, sample: CpuSample])[]): ReadonlyMap<string, number> {
    this.#rates = new Map(samples.map(([id, sample]) => [id, next(this.#rates.get(id), sample)]));
    return new Map([...this.#rates].flatMap(([id, { nanoCores }]) => (nanoCores === undefined ? [] : [[id, nanoCores] as const])));
  }
}

/** A count that went back is another process': it is begun anew. */
function next(before: Rate | undefined, sample: CpuSample): Rate {
  if (before === undefined || sample.nanoSeconds < before.from.nanoSeconds) return { from: sample };
  const lookMs = sample.timestampMs - before.from.timestampMs;
  if (lookMs < LOOK_MS_MIN) return before;
  return { from: sample, nanoCores: Math.round((sample.nanoSeconds - before.from.nanoSeconds) / (lookMs / 1000)) };
}
