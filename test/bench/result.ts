/** One result of `npm run bench`. */
export interface BenchResult {
  readonly name: string;
  /** The median of `n` rounds. */
  readonly value: number;
  readonly unit: string;
  /** Number of measured rounds. */
  readonly n: number;
  readonly spread: readonly [min: number, max: number];
  /** `value` divided by the reference value of `against`. */
  readonly ratio?: number;
  readonly against?: string;
}

/** The median of several rounds, with its reference value if known. */
export function benchResult(
  name: string,
  unit: string,
  rounds: readonly number[],
  against?: { readonly name: string; readonly value: number },
): BenchResult {
  const sorted = rounds.toSorted((a, b) => a - b);
  const [below = Number.NaN, above = below] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  const value = (below + above) / 2;
  const spread = [sorted[0] ?? value, sorted.at(-1) ?? value] as const;
  return { name, value, unit, n: rounds.length, spread, ...(against && { ratio: value / against.value, against: against.name }) };
}

/** The command line's options for a benchmark. */
export interface BenchOptions {
  readonly rows?: readonly string[] | undefined;
  readonly rounds?: number | undefined;
  /** The folder for CPU profiles. */
  readonly profiles?: string | undefined;
  /** The main file of another version of the command. */
  readonly before?: string | undefined;
  /** Whether to account for the pieces of a value instead of comparing. */
  readonly pieces?: boolean | undefined;
}
