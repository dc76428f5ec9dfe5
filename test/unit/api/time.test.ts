/** Parsing and formatting of times. */
import { describe, expect, it } from "vitest";
import { formatTime, parseTime } from "../../../shared/kube/objects/time.ts";

describe("parseTime", () => {
  it.each([
    ["2026-03-01T10:00:00Z", 1772359200000],
    ["2026-03-01T11:30:00+01:30", 1772359200000],
    ["2026-03-01T10:00:00.123456Z", 1772359200123],
    ["1970-01-01T00:00:00Z", 0],
    ["0001-01-01T00:00:00Z", -62135596800000],
  ])("%s is %d ms", (text, ms) => {
    expect(parseTime(text)).toBe(ms);
  });

  it.each([undefined, "", "now", "2026-03-01", "2026-03-01T10:00:00", "2026-03-01 10:00:00Z", "2026-13-01T10:00:00Z", "1772359200000"])(
    "rejects %s",
    (text) => {
      expect(parseTime(text)).toBeUndefined();
    },
  );
});

describe("formatTime", () => {
  it.each([
    [1772359200000, "2026-03-01T10:00:00Z"],
    [1772359200999, "2026-03-01T10:00:00Z"],
    [-1, "1969-12-31T23:59:59Z"],
  ])("%d ms is %s", (ms, text) => {
    expect(formatTime(ms)).toBe(text);
  });
});
