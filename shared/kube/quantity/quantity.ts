/**
 * Resource quantities (`500m`, `1Gi`, `2e3`), parsed exactly as upstream does: no floating point; digits finer than
 * 10⁻⁹ round up (away from zero); a binary quantity is capped at 2⁶³ − 1.
 */

export type QuantityFormat = "DecimalSI" | "DecimalExponent" | "BinarySI";

/** The parts of a quantity as written: `0.50Gi` → digits `050`, fractionDigits 2, exponent 30, BinarySI. */
export interface Quantity {
  readonly negative: boolean;
  /** Whole and fractional digits; without leading zeros in the whole part, and `0` if empty. */
  readonly digits: string;
  readonly fractionDigits: number;
  /** Power of 2 for BinarySI, else of 10. */
  readonly exponent: number;
  readonly format: QuantityFormat;
}

const SYNTAX = /^([+-]?)0*([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$/;
const BINARY_SUFFIXES: readonly string[] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/** Powers of 1000, starting at 10⁻⁹. */
const DECIMAL_SUFFIXES: readonly string[] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/** Bounds the computation for an exponent from external input. */
const EXPONENT_MAX = 1000;
const BINARY_MAX_NANOS = (2n ** 63n - 1n) * 1_000_000_000n;

/** The components of a quantity, or undefined if `text` is invalid. Source: apimachinery pkg/api/resource/quantity.go ParseQuantity. */
export function parseQuantity(text: string): Quantity | undefined {
  const trimmed = text.trim();
  const match = SYNTAX.exec(trimmed);
  if (match === null || trimmed === "") return undefined;
  const [, sign = "", whole = "", fraction = "", suffix = ""] = match;
  const { exponent, format } = parseSuffix(suffix);
  if (Math.abs(exponent) > EXPONENT_MAX) return undefined;
  return { negative: sign === "-", digits: `${whole || "0"}${fraction}`, fractionDigits: fraction.length, exponent, format };
}

/**
 * The value in units of 10⁻⁹ as decimal text, equal for all spellings of a number: `500m`, `0.5` and `5e-1`
 * are `500000000`. Undefined if `text` is not a quantity.
 */
export function numericQuantity(text: string): string | undefined {
  const quantity = parseQuantity(text);
  return quantity === undefined ? undefined : String(quantityNanos(quantity));
}

/** Whether both are quantities of the same value. Source: resource.Quantity Cmp, as equality.Semantic uses it. */
export function quantitiesEqual(a: string, b: string): boolean {
  const value = numericQuantity(a);
  return value !== undefined && value === numericQuantity(b);
}

/** The value in units of 10⁻⁹. */
export function quantityNanos({ negative, digits, fractionDigits, exponent, format }: Quantity): bigint {
  const binary = format === "BinarySI";
  const mantissa = binary ? BigInt(digits) << BigInt(exponent) : BigInt(digits);
  const scale = 9 + (binary ? 0 : exponent) - fractionDigits;
  const nanos = scale >= 0 ? mantissa * 10n ** BigInt(scale) : divideUp(mantissa, 10n ** BigInt(-scale));
  const capped = binary && nanos > BINARY_MAX_NANOS ? BINARY_MAX_NANOS : nanos;
  return negative ? -capped : capped;
}

function divideUp(value: bigint, divisor: bigint): bigint {
  return (value + divisor - 1n) / divisor;
}

/** The suffix of `exponent`, or undefined if there is none. */
export function suffixOf(exponent: number, format: QuantityFormat): string | undefined {
  if (format === "BinarySI") return BINARY_SUFFIXES[exponent / 10];
  if (format === "DecimalExponent") return exponent === 0 ? "" : `e${exponent}`;
  return DECIMAL_SUFFIXES[(exponent + 9) / 3];
}

function parseSuffix(suffix: string): { readonly exponent: number; readonly format: QuantityFormat } {
  const binary = BINARY_SUFFIXES.indexOf(suffix);
  if (binary > 0) return { exponent: binary * 10, format: "BinarySI" };
  const decimal = DECIMAL_SUFFIXES.indexOf(suffix);
  if (decimal >= 0) return { exponent: decimal * 3 - 9, format: "DecimalSI" };
  return { exponent: Number(suffix.slice(1)), format: "DecimalExponent" };
}
