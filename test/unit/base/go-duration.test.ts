import { expect, it } from "vitest";

import { duration } from "../../../shared/base/usage-error.ts";
import { parseGoDuration } from "../../../shared/base/go-duration.ts";

/** Results recorded from Go 1.26 time.ParseDuration. */
const VERDICTS: readonly (readonly [text: string, ms: number | undefined])[] = [
  ["0", 0],
  ["+0", 0],
  ["-0", 0],
  ["0s", 0],
  [".5s", 500],
  ["1.s", 1000],
  ["+1s", 1000],
  ["-1s", -1000],
  ["-.5h", -1.8e6],
  ["1h30m", 5.4e6],
  ["1.5h", 5.4e6],
  ["1h1h", 7.2e6],
  ["1m30s500ms", 90500],
  ["100ms", 100],
  ["1us", 0.001],
  ["1µs", 0.001],
  ["1μs", 0.001],
  ["1ns", 1e-6],
  ["2562047h", 9.2233692e12],
  ["90s", 90000],
  ["00090s", 90000],
  ["1.50s", 1500],
  ["", undefined],
  ["1", undefined],
  ["s", undefined],
  [".s", undefined],
  ["+", undefined],
  ["-", undefined],
  ["+-1s", undefined],
  ["1d", undefined],
  ["1 s", undefined],
  [" 1s", undefined],
  ["1s ", undefined],
  ["1.2.3s", undefined],
  ["1e3s", undefined],
  ["0x1s", undefined],
  ["1S", undefined],
  ["1h-30m", undefined],
  ["٣s", undefined],
  ["1h30", undefined],
  ["Inf", undefined],
  ["1..s", undefined],
  ["\n1s", undefined],
  ["1s\n", undefined],
];

it.each(VERDICTS)("parses the duration %j as Go does: %s ms", (text, ms) => {
  expect(parseGoDuration(text)).toBe(ms);
});

it("an option accepts only non-negative durations of whole milliseconds", () => {
  expect(["1h30m", ".5s", "0", "+2m"].map(duration("--wait"))).toEqual([5_400_000, 500, 0, 120_000]);
  for (const text of ["", "90", "-1s", "1d", "1us"])
    expect(() => duration("--wait")(text)).toThrow(/^--wait takes a duration such as 90s, 2m or 1h30m, not/);
});
