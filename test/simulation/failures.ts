/** One system seed as a test. */
import { isKnown } from "./checks.ts";
import { simulate } from "./world.ts";
import type { SimulationOptions } from "./world.ts";

/** @returns the violations of a seed that no excuse covers, each with the command that repeats it */
export async function failures(seed: number, fault?: SimulationOptions["fault"]): Promise<readonly string[]> {
  const { violations, mix } = await simulate({ seed, ...(fault && { fault }) });
  return violations
    .filter(({ rule }) => !isKnown(rule))
    .map(({ rule, atMs, what }) => `npm run sim -- --seed ${seed} (${mix}): ${rule} at ${atMs} ms: ${what}`);
}
