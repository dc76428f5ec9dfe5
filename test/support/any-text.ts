import fc from "fast-check";

/**
 * Text of any code points, including unpaired surrogates. Unlike fast-check's own `unit: "binary"`, it does not spend a
 * second listing every code point first.
 */
export function anyText(lengthMax: number): fc.Arbitrary<string> {
  return fc.array(fc.nat(0x10ffff), { maxLength: lengthMax }).map((codePoints) => String.fromCodePoint(...codePoints));
}
