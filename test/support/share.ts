/**
 * The number of test cases that run. `check` runs a share that fits into its time; the project `long`, part of `npm
 * test` and CI, runs all (vitest.config.ts).
 */
import { inject } from "vitest";

declare module "vitest" {
  interface ProvidedContext {
    /** Absent: the share of `check`. */
    readonly share?: "all";
  }
}

/** `count` cases of `all`, spread evenly, including the first one; in the project `long`, all. */
export function shareOf<T>(all: readonly T[], count: number): readonly T[] {
  if (inject("share") === "all") return all;
  const step = Math.max(1, all.length / count);
  return all.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step));
}
