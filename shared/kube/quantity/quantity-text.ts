/**
 * Upstream's representation of a quantity: a small mantissa and power of ten if that fits ("fast"), else a decimal of any precision; and
 * the original text only if it is canonical. The representation affects stored objects and the text that pod-template-hash hashes
 * (deployment §7.2).
 *
 * Source: apimachinery pkg/api/resource/quantity.go ParseQuantity, CanonicalizeBytes.
 */
import { parseQuantity, quantityNanos, suffixOf, type Quantity } from "./quantity.ts";

const INT64_MAX = 2n ** 63n - 1n;
const NANOS = 1_000_000_000n;
const FINEST_SCALE = -9;
/** Decimal digits that always fit an int64. */
const DIGITS_MAX = 18;
/** Upstream keeps a quantity with a binary suffix in an int64 up to this many decimal digits, minus about 0.3 per bit of the suffix. */
const BINARY_DIGITS_MAX = 14;
const ZERO: Quantity = { negative: false, digits: "0", fractionDigits: 0, exponent: 0, format: "DecimalSI" };

/**
 * The quantity as the API server stores it: `1000m` → `1`, `1024Mi` → `1Gi`, `1.5Gi` → `1536Mi`; the given text if it
 * is canonical. Undefined if `text` is not a quantity.
 *
 * Differs from upstream: beyond the largest suffix (`1000E`) upstream loses the exponent and stores `1`; we keep the value.
 */
export function canonicalQuantity(text: string): string | undefined {
  const trimmed = text.trim();
  const quantity = parseQuantity(trimmed);
  if (quantity === undefined) return undefined;
  if (fastAmount(quantity) !== undefined && isCanonical(trimmed, quantity)) return trimmed;
  const nanos = quantityNanos(quantity);
  const binary = quantity.format === "BinarySI";
  if (binary && absolute(nanos) >= 1024n * NANOS && nanos % NANOS === 0n) return shortest(nanos / NANOS, 1024n, 0, 10, "BinarySI");
  return shortest(nanos, 1000n, FINEST_SCALE, 3, binary ? "DecimalSI" : quantity.format);
}

/** Codes of the formats in Go, from 1.38 on. */
const FORMAT_CODES = { DecimalExponent: 1, BinarySI: 2, DecimalSI: 3 } as const;

/**
 * Go's print of a stored quantity, without its type; an absent quantity is stored as `0`. `textType`: `cachedString` (1.38) has the text of
 * every quantity and its format, `string` only a canonical text. `{i:(resource.int64Amount){value:(int64)100 scale:(resource.Scale)-3} d:…
 * s:(string)100m Format:(resource.Format)DecimalSI}`.
 */
export function quantityText(text: string, textType: "string" | "cachedString"): string {
  const stored = canonicalQuantity(text) ?? "0";
  const quantity = parseQuantity(stored) ?? ZERO;
  const fast = fastAmount(quantity);
  const cached = fast !== undefined && isCanonical(stored, quantity) ? stored : "";
  const field =
    textType === "string"
      ? `(string)${cached}`
      : `(resource.cachedString){str:(string)${stored} format:(resource.formatCode)${FORMAT_CODES[quantity.format]}}`;
  if (fast === undefined) return printed({ value: 0n, scale: 0 }, decimalText(quantityNanos(quantity)), field, quantity.format);
  return printed(fast, "<nil>", field, quantity.format);
}

/** The smallest mantissa after dividing by powers of `base`, with the suffix of the resulting exponent. */
function shortest(value: bigint, base: bigint, exponent: number, step: number, format: Quantity["format"]): string {
  if (value === 0n) return "0";
  const next = suffixOf(exponent + step, format);
  if (value % base === 0n && next !== undefined) return shortest(value / base, base, exponent + step, step, format);
  return `${value}${suffixOf(exponent, format) ?? ""}`;
}

/** Mantissa and power of ten. */
interface Amount {
  readonly value: bigint;
  readonly scale: number;
}

function fastAmount({ negative, digits, fractionDigits, exponent, format }: Quantity): Amount | undefined {
  const binary = format === "BinarySI";
  const digitsMax = binary ? BINARY_DIGITS_MAX - Math.trunc((exponent * 3) / 10) : DIGITS_MAX;
  const scale = (binary ? 0 : exponent) - fractionDigits;
  if (digits.length > digitsMax || scale < FINEST_SCALE || (binary && fractionDigits > 0)) return undefined;
  const value = BigInt(digits) << (binary ? BigInt(exponent) : 0n);
  if (value > INT64_MAX) return undefined;
  return { value: negative ? -value : value, scale };
}

function isCanonical(text: string, { digits, fractionDigits, exponent, format }: Quantity): boolean {
  if (text === "0") return true;
  if (format === "BinarySI") return (BigInt(digits) & 7n) !== 0n;
  return (exponent - fractionDigits) % 3 === 0 && !digits.endsWith("000") && !digits.startsWith("0");
}

function printed({ value, scale }: Amount, decimal: string, textField: string, format: string): string {
  return (
    `{i:(resource.int64Amount){value:(int64)${value} scale:(resource.Scale)${scale}} d:(resource.infDecAmount){Dec:(*inf.Dec)${decimal}}` +
    ` s:${textField} Format:(resource.Format)${format}}`
  );
}

/** An inf.Dec of nine fractional digits: sign and 64-bit words, lowest first. */
function decimalText(nanos: bigint): string {
  const words: bigint[] = [];
  for (let rest = absolute(nanos); rest > 0n; rest >>= 64n) words.push(BigInt.asUintN(64, rest));
  return `{unscaled:(big.Int){neg:(bool)${nanos < 0n} abs:(big.nat)[${words.join(" ")}]} scale:(inf.Scale)${-FINEST_SCALE}}`;
}

function absolute(value: bigint): bigint {
  return value < 0n ? -value : value;
}
