import { describe, expect, it } from "vitest";

import { NestingError, parseExact } from "../../../shared/base/exact-json.ts";

const LONG = "x".repeat(2_100_000);
const nested = (levels: number): string => `${"[".repeat(levels)}"${LONG}"${"]".repeat(levels)}`;

describe("untrusted JSON", () => {
  it("untrusted JSON is rejected before parsing if it is 10 MB of opening brackets", () => {
    const before = process.memoryUsage().rss;
    expect(() => parseExact("[".repeat(10_000_000))).toThrow(NestingError);
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 2 ** 20);
  });

  it("untrusted JSON may be nested 100 levels deep, and no deeper", () => {
    expect(() => parseExact(nested(100))).not.toThrow();
    expect(() => parseExact(nested(101))).toThrow("nested deeper than 100 levels");
    expect(() => parseExact(`{"a":${nested(100)}}`)).toThrow(NestingError);
  });

  it.each([
    ["brackets in strings", JSON.stringify(["[".repeat(200) + LONG])],
    ["brackets after escaped quotes", JSON.stringify([`"\\"${"[".repeat(200)}${LONG}\\\\`, "["])],
    ["many siblings", JSON.stringify(Array.from({ length: 600_000 }, () => [{}]))],
  ])("the nesting limit does not count %s", (_title, text) => {
    expect(parseExact(text)).toEqual(JSON.parse(text));
  });
});
