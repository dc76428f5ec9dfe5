/** Texts and orders that must be Go's: strings in JSON and in `%q`, and the order of strings and values. */
import { isObject, type Json } from "@deltaloop/base";

/** JSON with Go's escapes and sorted keys. Source: github.com/json-iterator/go (ConfigCompatibleWithStandardLibrary). */
export function goJson(value: Json): string {
  if (typeof value === "string") return goJsonString(value);
  if (Array.isArray(value)) return `[${value.map(goJson).join(",")}]`;
  if (isObject(value)) {
    const entries = Object.entries(value).sort(([a], [b]) => compareText(a, b));
    return `{${entries.map(([key, each]) => `${goJsonString(key)}:${goJson(each)}`).join(",")}}`;
  }
  return String(value);
}

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const ESCAPED = /["\\<>&\u2028\u2029\u0000-\u001f]/gu;
const SHORT: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function goJsonString(text: string): string {
  return `"${text.replace(ESCAPED, (letter) => SHORT[letter] ?? `\\u${hex(letter.charCodeAt(0), 4)}`)}"`;
}

const QUOTED: Readonly<Record<string, string>> = {
  ...SHORT,
  "\u0007": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\v": "\\v",
};
const UNPRINTABLE = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/** Source: Go strconv.Quote. */
export function goQuote(text: string): string {
  const escaped = text.replace(UNPRINTABLE, (letter) => {
    const code = letter.codePointAt(0) ?? 0;
    if (QUOTED[letter] !== undefined) return QUOTED[letter];
    if (code < 0x20 || code === 0x7f) return `\\x${hex(code, 2)}`;
    return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  });
  return `"${escaped}"`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}

/** The order of the UTF-8 bytes, which is that of the code points. */
export function compareText(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x === y) continue;
    // A surrogate is half of a code point above 0xffff.
    const [isHighX, isHighY] = [isSurrogate(x), isSurrogate(y)];
    if (isHighX !== isHighY) return isHighX ? 1 : -1;
    return x - y;
  }
  return a.length - b.length;
}

function isSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdfff;
}

/** Numbers, strings, booleans, lists, maps, null. Source: github.com/kubernetes-sigs/structured-merge-diff value.Compare. */
export function compareValues(a: Json, b: Json): number {
  const [rankA, rankB] = [rankOf(a), rankOf(b)];
  if (rankA !== rankB) return rankA - rankB;
  if (typeof a === "string") return compareText(a, b as string); // of one rank
  if (typeof a === "boolean" || typeof a === "number" || typeof a === "bigint") return a === b ? 0 : a < (b as typeof a) ? -1 : 1;
  // Lists and maps are no elements of a set; they need any order.
  return compareText(goJson(a), goJson(b));
}

function rankOf(value: Json): number {
  if (typeof value === "number" || typeof value === "bigint") return 0;
  if (typeof value === "string") return 1;
  if (typeof value === "boolean") return 2;
  if (Array.isArray(value)) return 3;
  return value === null ? 5 : 4;
}
