/**
 * Resource quantities in their canonical form: `1000m` → `1`, `0.5` → `500m`, `1024Mi` → `1Gi`, `1e3` → `1e3`.
 * The API server serves them so, and the pod-template-hash sees the text.
 *
 * Source: k8s.io/apimachinery/pkg/api/resource/quantity.go (ParseQuantity, CanonicalizeBytes).
 */
const SUFFIXES: Readonly<Record<string, { readonly base: 2 | 10; readonly exponent: number }>> = {
  n: { base: 10, exponent: -9 },
  u: { base: 10, exponent: -6 },
  m: { base: 10, exponent: -3 },
  "": { base: 10, exponent: 0 },
  k: { base: 10, exponent: 3 },
  M: { base: 10, exponent: 6 },
  G: { base: 10, exponent: 9 },
  T: { base: 10, exponent: 12 },
  P: { base: 10, exponent: 15 },
  E: { base: 10, exponent: 18 },
  Ki: { base: 2, exponent: 10 },
  Mi: { base: 2, exponent: 20 },
  Gi: { base: 2, exponent: 30 },
  Ti: { base: 2, exponent: 40 },
  Pi: { base: 2, exponent: 50 },
  Ei: { base: 2, exponent: 60 },
};

const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const NANO = 1_000_000_000n;

/** The canonical text, or `undefined` for what is no quantity. */
export function canonicalQuantity(text: string): string | undefined {
  const match = /^(?<sign>[+-]?)(?<whole>\d*)(?:\.(?<fraction>\d*))?(?:(?<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?<exponent>[+-]?\d+))?$/u.exec(
    text,
  );
  if (match?.groups === undefined) return undefined;
  const { sign = "", whole = "", fraction = "", suffix = "", exponent } = match.groups;
  if (whole === "" && fraction === "") return undefined;
  const scale = SUFFIXES[suffix] ?? { base: 10, exponent: 0 };
  const power = exponent === undefined ? scale.exponent : Number(exponent);
  const nanos = toNanos(`${whole}${fraction}`, fraction.length, scale.base, power);
  if (nanos === 0n) return "0";
  const minus = sign === "-" ? "-" : "";
  if (exponent !== undefined) return `${minus}${decimalExponent(nanos)}`;
  // Below one Ki, and where it is no whole number, a binary quantity is written as a decimal one.
  if (scale.base === 2 && nanos % NANO === 0n && nanos / NANO >= 1024n) return `${minus}${largestUnit(nanos / NANO, 1024n, BINARY)}`;
  return `${minus}${largestUnit(nanos, 1000n, DECIMAL)}`;
}

/** In units of 10⁻⁹, rounded up, as upstream does with what is finer. */
function toNanos(digits: string, fractionDigits: number, base: 2 | 10, power: number): bigint {
  let numerator = BigInt(digits) * NANO;
  let denominator = 10n ** BigInt(fractionDigits);
  if (power >= 0) numerator *= BigInt(base) ** BigInt(power);
  else denominator *= BigInt(base) ** BigInt(-power);
  return (numerator + denominator - 1n) / denominator;
}

function largestUnit(amount: bigint, step: bigint, units: readonly string[]): string {
  let unit = 0;
  let left = amount;
  while (left % step === 0n && unit < units.length - 1) {
    left /= step;
    unit += 1;
  }
  return `${left}${units[unit] ?? ""}`;
}

function decimalExponent(nanos: bigint): string {
  let exponent = -9;
  let left = nanos;
  while (left % 1000n === 0n) {
    left /= 1000n;
    exponent += 3;
  }
  return exponent === 0 ? String(left) : `${left}e${exponent}`;
}
