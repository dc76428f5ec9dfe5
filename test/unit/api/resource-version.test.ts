/** Comparison of resourceVersions as integers of any length. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  compareResourceVersions,
  isResourceVersion,
  maxResourceVersion,
  minResourceVersion,
} from "../../../shared/kube/objects/resource-version.ts";

describe("compareResourceVersions", () => {
  it.each([
    ["9", "10"],
    ["99", "100"],
    ["9007199254740992", "9007199254740993"],
    ["18446744073709551616", "18446744073709551617"],
    ["9999999999999999999", "10000000000000000000"],
    ["0", "1"],
  ])("[informer T86] %s is older than %s", (older, newer) => {
    expect(compareResourceVersions(older, newer)).toBeLessThan(0);
    expect(compareResourceVersions(newer, older)).toBeGreaterThan(0);
    expect(compareResourceVersions(newer, newer)).toBe(0);
    expect(maxResourceVersion(older, newer)).toBe(newer);
    expect(minResourceVersion(older, newer)).toBe(older);
  });

  it("[replicaset P17] [informer T86] compares versions of up to 128 bits as integers", () => {
    const rv = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n });
    const near = fc.tuple(rv, fc.bigInt({ min: -2n, max: 2n })).map(([a, step]): [bigint, bigint] => [a, a + step < 0n ? 0n : a + step]);
    fc.assert(
      fc.property(fc.oneof(fc.tuple(rv, rv), near), ([a, b]) => {
        fc.pre(b < 2n ** 128n);
        expect(Math.sign(compareResourceVersions(String(a), String(b)))).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });

  it.each(["", "01", "-1", "1.0", "1e3", "abc", " 1", "0x1", "9".repeat(40)])("rejects %j", (value) => {
    expect(isResourceVersion(value)).toBe(false);
    expect(() => compareResourceVersions(value, "1")).toThrow(RangeError);
    expect(() => compareResourceVersions("1", value)).toThrow(RangeError);
  });
});
