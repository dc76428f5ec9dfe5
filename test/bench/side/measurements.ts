/** What the benchmark measures, in the order of its table, and how rounds become one value. */
import { benchResult } from "../result.ts";
import type { BenchResult } from "../result.ts";
import type { PartyName } from "./parties.ts";

interface Measurement {
  readonly title: string;
  readonly unit: "s" | "ms" | "writes" | "MiB";
  /** The ratio to upstream that we want to reach. */
  readonly goal: number;
  /** Of all samples of all rounds. Default 0.5; a round has many samples only if this is given. */
  readonly quantile?: number;
}

export const MEASUREMENTS = {
  thousandCold: { title: "Deployment of 1,000 until its pods exist, cold", unit: "s", goal: 1.5 },
  thousandWarm: { title: "Deployment of 1,000 until its pods exist, warm", unit: "s", goal: 1.3 },
  thousandColdCpu: { title: "CPU per pod of it, cold", unit: "ms", goal: 2.5 },
  thousandWarmCpu: { title: "CPU per pod of it, warm", unit: "ms", goal: 2 },
  hundred: { title: "100 Deployments of 10 until their pods exist", unit: "s", goal: 1.6 },
  hundredCpu: { title: "CPU per pod of them", unit: "ms", goal: 2.2 },
  singleP50: { title: "Deployment of 1, POST to pod, p50", unit: "ms", goal: 2, quantile: 0.5 },
  singleP99: { title: "Deployment of 1, POST to pod, p99", unit: "ms", goal: 2, quantile: 0.99 },
  singleCpu: { title: "CPU of it", unit: "ms", goal: 3.5 },
  deletedP50: { title: "deleted pod until its replacement, p50", unit: "ms", goal: 2, quantile: 0.5 },
  deletedP99: { title: "deleted pod until its replacement, p99", unit: "ms", goal: 2, quantile: 0.99 },
  rolling: { title: "rolling update of 200 until it is complete", unit: "s", goal: 1.5 },
  rollingCpu: { title: "CPU of it", unit: "s", goal: 3 },
  rollingWrites: { title: "writes of it", unit: "writes", goal: 0.9 },
  start: { title: "start with 20,000 pods until a pod is created", unit: "s", goal: 2.2 },
  memory: { title: "memory with 20,000 pods", unit: "MiB", goal: 1 },
} as const satisfies Readonly<Record<string, Measurement>>;

export type MeasurementName = keyof typeof MEASUREMENTS;

/** One system's samples, by measurement and round. */
export class Samples {
  readonly #rounds = new Map<MeasurementName, (readonly number[])[]>();

  /** Adds one round. */
  add(name: MeasurementName, ...samples: readonly number[]): void {
    this.#rounds.set(name, [...(this.#rounds.get(name) ?? []), samples]);
  }

  /** The measurement's value, and the lowest and highest value of a round. Undefined if it was not measured. */
  result(name: MeasurementName, party: PartyName, against?: number): BenchResult | undefined {
    const rounds = this.#rounds.get(name);
    if (rounds === undefined) return undefined;
    const { unit, ...measurement }: Measurement = MEASUREMENTS[name];
    const title = `${name}, ${party}`;
    const compared = against === undefined ? undefined : { name: "upstream in the same run", value: against };
    const { quantile } = measurement;
    if (quantile === undefined) return benchResult(title, unit, rounds.flat(), compared);
    const ofRounds = benchResult(
      title,
      unit,
      rounds.map((samples) => quantileOf(samples, quantile)),
      compared,
    );
    const value = quantileOf(rounds.flat(), quantile);
    return { ...ofRounds, value, ...(against !== undefined && { ratio: value / against }) };
  }
}

function quantileOf(values: readonly number[], quantile: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * quantile))] ?? Number.NaN;
}

/** The table of a run: one line per measurement, each value with the range of its rounds. */
export function table(results: readonly BenchResult[]): string {
  const of = (name: string, party: PartyName): BenchResult | undefined => results.find((one) => one.name === `${name}, ${party}`);
  const isCompared = results.some(({ name }) => name.endsWith(", before"));
  const parties: readonly PartyName[] = isCompared ? ["upstream", "before", "ours"] : ["upstream", "ours"];
  const rows = Object.entries(MEASUREMENTS).flatMap(([name, { title, goal }]) => {
    if (of(name, "ours") === undefined) return [];
    const values = parties.map((party) => of(name, party));
    const ratios = values.slice(1).map((result) => result?.ratio?.toFixed(2) ?? "");
    return [[title, ...values.map(cell), ratios.join(" → "), String(goal)]];
  });
  const head = ["measurement", ...parties.map((party) => `${party} (range)`), "ratio", "goal"];
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((cells) => cells[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string => `| ${cells.map((text, i) => text.padEnd(widths[i] ?? 0)).join(" | ")} |\n`;
  return [head, widths.map((width) => "-".repeat(width)), ...rows].map(line).join("");
}

function cell(result: BenchResult | undefined): string {
  if (result === undefined) return "";
  const { value, unit, spread } = result;
  const number = (n: number): string => n.toPrecision(3).replace(/e.*/, "");
  const show = (n: number): string => (n >= 100 ? n.toFixed(0) : number(n));
  return `${show(value)} ${unit} (${show(spread[0])}–${show(spread[1])})`.replace(" writes", "");
}
