import fc from "fast-check";

/**
 * Text of whatever code points, also of halves of pairs. Of fast-check's own `unit: "binary"` it differs in what it costs: that one first
 * writes down every code point there is, for a second.
 */
export function anyText(lengthMax: number): fc.Arbitrary<string> {
  return fc.array(fc.nat(0x10ffff), { maxLength: lengthMax }).map((codePoints) => String.fromCodePoint(...codePoints));
}
