/**
 * The cost of MACs: µs per row, and the remaining share of the throughput without them. Both sides run alternately, so that other load on
 * the machine affects both.
 */
import type { Signer } from "../../shared/store/signer.ts";
import { SIGNATURE_CHARACTERS } from "../../shared/store/signer.ts";
import { testSigner } from "../support/signer.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

/**
 * Signs nothing and accepts every signature. Its signatures are as long as real ones, so that the number of bytes is equal. For benchmarks
 * only.
 */
export const NULL_SIGNER: Signer = {
  keyId: "AA",
  sign: () => "A".repeat(SIGNATURE_CHARACTERS),
  verify: () => "current",
};

const GOAL = { name: "goal: at least 70 % of the throughput without MACs", value: 70 };
const ROUNDS = 9;
const ROWS = 20_000;

/** `round` returns a rate. */
export async function sideBySide(
  name: string,
  withMac: () => Promise<number>,
  without: () => Promise<number>,
): Promise<readonly BenchResult[]> {
  const rates = { withMac: [] as number[], without: [] as number[] };
  for (let round = -1; round < ROUNDS; round++) {
    const pair = [await withMac(), await without()] as const;
    if (round < 0) continue; // the first round warms up
    rates.withMac.push(pair[0]);
    rates.without.push(pair[1]);
  }
  const ratios = rates.withMac.map((rate, i) => (100 * rate) / (rates.without[i] ?? Number.NaN));
  return [
    benchResult(`${name}, with MACs`, "deltas/s", rates.withMac),
    benchResult(`${name}, nothing signed`, "deltas/s", rates.without),
    benchResult(`${name}, with MACs of nothing signed`, "%", ratios, GOAL),
  ];
}

/** Measures a row and an index entry of typical size. */
export function macPerRow(): readonly BenchResult[] {
  const signer = testSigner("0123456789ab");
  const head = (i: number) => [
    "epoch",
    "pods",
    `production/web-${i}`,
    `9d3b7c52-1f4e-4a6b-8c0d-${i}`,
    String(1_000_000 + i),
    "o".repeat(22),
  ];
  const object = "x".repeat(230);
  const signed: string[] = [];
  const time = (each: (i: number) => void): number => {
    const start = performance.now();
    for (let i = 0; i < ROWS; i++) each(i);
    return ((performance.now() - start) / ROWS) * 1_000;
  };
  const sign: number[] = [];
  const verify: number[] = [];
  for (let round = -1; round < ROUNDS; round++) {
    const signUs = time((i) => {
      signer.sign("v", head(i));
      signed[i] = signer.sign("s", [...head(i), object]);
    });
    const verifyUs = time((i) => {
      if (signer.verify("s", [...head(i), object], signed[i] ?? "") !== "current") throw new Error("not ours");
    });
    if (round < 0) continue;
    sign.push(signUs);
    verify.push(verifyUs);
  }
  return [benchResult("MAC: a row and its entry signed", "µs", sign), benchResult("MAC: an entry checked", "µs", verify)];
}
