/**
 * The number of test cases that run. `check` runs a share that fits into its time; the project `long`, part of `npm
 * test` and CI, runs all (vitest.config.ts).
 */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** Absent in the project `check`, which runs a share of the cases. */
    readonly share?: "all";
  }
}

/** Returns `count` cases of `all`, evenly spread and including the first one. In the project `long`, returns all. */
export function shareOf<T>(all: readonly T[], count: number): readonly T[] {
  if (inject("share") === "all") return all;
  const step = Math.max(1, all.length / count);
  return all.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step));
}
