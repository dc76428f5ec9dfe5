const INT64_MAX = 2n ** 63n - 1n;
const INT64_MIN = -(2n ** 63n);

/**
 * Parses a decimal int64 as Go does, or returns Go's error text: a sign is allowed, spaces and `_` are not.
 *
 *     atoi("+2") → 2n      atoi("2%") → `strconv.Atoi: parsing "2%": invalid syntax`
 *
 * Source: strconv.Atoi, where an int has 64 bits.
 */
export function atoi(text: string): bigint | string {
  const failed = (why: string): string => `strconv.Atoi: parsing ${JSON.stringify(text)}: ${why}`;
  if (!/^[+-]?\d+$/.test(text)) return failed("invalid syntax");
  const value = BigInt(text.startsWith("+") ? text.slice(1) : text);
  return value > INT64_MAX || value < INT64_MIN ? failed("value out of range") : value;
}
