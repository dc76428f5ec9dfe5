/** Quantities: exact arithmetic and canonical form. */
import { describe, expect, it } from "vitest";
import { canonicalQuantity, quantityText } from "../../../shared/kube/quantity/quantity-text.ts";
import { numericQuantity, parseQuantity, quantitiesEqual } from "../../../shared/kube/quantity/quantity.ts";

describe("numericQuantity", () => {
  it.each([
    ["0", "0"],
    ["00", "0"],
    ["-0", "0"],
    ["0.0Gi", "0"],
    ["1", "1000000000"],
    ["+1", "1000000000"],
    ["-1", "-1000000000"],
    ["500m", "500000000"],
    [".5", "500000000"],
    ["5e-1", "500000000"],
    ["1k", "1000000000000"],
    ["1E3", "1000000000000"],
    ["1E", "1000000000000000000000000000"],
    ["1Ki", "1024000000000"],
    ["0.5Mi", "524288000000000"],
    ["1n", "1"],
    ["9007199254740993", "9007199254740993000000000"],
  ])("%s is %s billionths", (text, nanos) => {
    expect(numericQuantity(text)).toBe(nanos);
  });

  it.each([
    { name: "rounds up values finer than a billionth", text: "0.0000000001", nanos: "1" },
    { name: "rounds negative values away from zero", text: "-1.1n", nanos: "-2" },
    { name: "caps a binary quantity at 2⁶³ − 1", text: "9999999999999Gi", nanos: "9223372036854775807000000000" },
    { name: "does not cap a decimal quantity", text: "9223372036854775808", nanos: "9223372036854775808000000000" },
  ])("numericQuantity $name", ({ text, nanos }) => {
    expect(numericQuantity(text)).toBe(nanos);
  });

  it.each(["", " ", "abc", "1 Gi", "1gi", "1e", "1i", "0x10", "1.2.3", "--1", "1e1001", "1Zi"])("rejects %j", (text) => {
    expect(parseQuantity(text)).toBeUndefined();
    expect(numericQuantity(text)).toBeUndefined();
    expect(canonicalQuantity(text)).toBeUndefined();
  });
});

describe("quantitiesEqual", () => {
  it.each([
    ["1Gi", "1024Mi", true],
    ["1Gi", "1073741824", true],
    ["1000m", "1", true],
    ["0", "0m", true],
    ["1G", "1Gi", false],
    ["9007199254740992", "9007199254740993", false],
    ["x", "x", false],
  ])("%s equals %s: %s", (a, b, equal) => {
    expect(quantitiesEqual(a, b)).toBe(equal);
    expect(quantitiesEqual(b, a)).toBe(equal);
  });
});

// Each pair was printed by upstream's Quantity (apimachinery v0.36).
describe("canonicalQuantity", () => {
  it.each([
    ["0", "0"],
    ["0.0Gi", "0"],
    ["500m", "500m"],
    ["0.5", "500m"],
    ["1000m", "1"],
    ["1500m", "1500m"],
    ["1.5", "1500m"],
    ["1000", "1k"],
    ["1e3", "1e3"],
    ["1000e3", "1e6"],
    ["1e1", "10"],
    ["64Mi", "64Mi"],
    ["1024Mi", "1Gi"],
    ["1.5Gi", "1536Mi"],
    ["-1.5Gi", "-1536Mi"],
    ["0.5Ki", "512"],
    ["0.0005Ki", "512m"],
    ["0.9765625Ki", "1k"],
    ["100Ti", "100Ti"],
    ["9999999999999Gi", "9223372036854775807"],
    ["0.0000000001", "1n"],
    ["12345678901234567890", "12345678901234567890"],
    [" 1 ", "1"],
  ])("%s is stored as %s", (text, stored) => {
    expect(canonicalQuantity(text)).toBe(stored);
    expect(canonicalQuantity(stored)).toBe(stored);
  });

  it("keeps the value beyond the largest suffix, where upstream loses it", () => {
    expect(canonicalQuantity("1000E")).toBe("1000E");
  });
});

describe("quantityText", () => {
  const amount = (value: string, scale: number): string =>
    `{i:(resource.int64Amount){value:(int64)${value} scale:(resource.Scale)${scale}}`;
  const decimal = (words: string): string =>
    `{Dec:(*inf.Dec){unscaled:(big.Int){neg:(bool)false abs:(big.nat)[${words}]} scale:(inf.Scale)9}}`;

  it.each([
    { text: "100m", starts: amount("100", -3), ends: "s:(string)100m Format:(resource.Format)DecimalSI}" },
    { text: "0.1", starts: amount("100", -3), ends: "s:(string)100m Format:(resource.Format)DecimalSI}" },
    { text: "170Mi", starts: amount("178257920", 0), ends: "s:(string)170Mi Format:(resource.Format)BinarySI}" },
    { text: "64Mi", starts: amount("67108864", 0), ends: "s:(string) Format:(resource.Format)BinarySI}" },
    { text: "1e3", starts: amount("1", 3), ends: "s:(string)1e3 Format:(resource.Format)DecimalExponent}" },
    { text: "0", starts: amount("0", 0), ends: "s:(string)0 Format:(resource.Format)DecimalSI}" },
    { text: "100Ti", starts: amount("0", 0), ends: `${decimal("8568098291072368640 5960")} s:(string) Format:(resource.Format)BinarySI}` },
  ])("prints $text", ({ text, starts, ends }) => {
    expect(quantityText(text, "string").startsWith(starts)).toBe(true);
    expect(quantityText(text, "string").endsWith(ends)).toBe(true);
  });
});
