/**
 * JSON that keeps every integer of a pod template exact. Templates have int64 fields (`terminationGracePeriodSeconds:
 * 9223372036854775807`), and the controllers resend templates, so a rounded integer would change the template or make the server reject it.
 *
 *   EJ1 an integer within `spec.template` that no JavaScript number represents is a bigint. All other values are as from JSON.parse, so
 *       arithmetic never has to handle a bigint.
 *   EJ2 a template's labels are as from JSON.parse, because the cache stores them as plain JSON.
 *   EJ3 text without such an integer costs as much as JSON.parse; text without a template costs two more searches.
 *
 * A bigint is compared, cloned and frozen like any other value. JSON.stringify rejects it, so a template is
 * serialized by `exactText`.
 */

/** ECMAScript's "JSON.parse source text access", which TypeScript does not declare yet. */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
};

/** Thrown for JSON that is nested too deeply for an API object: each level needs more memory than its text. */
export class NestingError extends SyntaxError {
  override readonly name = "NestingError";
}

/** API objects are nested less than half as deep; the API server itself rejects 10,000 levels. */
const LEVELS_MAX = 100;
/**
 * Shorter texts are not scanned: a level costs 145 bytes, so even the deepest possible nesting fits into memory. Scanning a page of a list
 * would cost half as much as parsing it.
 */
const SCANNED_LENGTH = 2 * 1024 * 1024;

/** Finds a long integer in a field or list. A match inside a string is possible and only costs a second parse. */
const LONG_INTEGER = /[:[,]\s*-?\d{16}/;
/** A text that contains neither of these has no field `template`. */
const [TEMPLATE, ESCAPED] = ['"template"', String.raw`\u`];
/** int64 has 19 digits. */
const INTEGER = /^-?\d{16,19}$/;

type Fields = Record<string, unknown>;

/**
 * Parses an API object, a list of them, or a value that holds either in one of its fields: a watch event, a line of a capture, an audit
 * event, or a list of those.
 *
 * @throws {SyntaxError} as JSON.parse does
 * @throws {NestingError} for a text of more than 2 Mi characters that is nested deeper than 100 levels
 */
export function parseExact(text: string): unknown {
  const value = parseRounded(text);
  if (!text.includes(TEMPLATE) && !text.includes(ESCAPED)) return value;
  if (!objectsOf(value).some((object) => templateOf(object)) || !LONG_INTEGER.test(text)) return value;
  const exact = objectsOf(parse(text, (_key, each, { source = "" }) => (INTEGER.test(source) && isRounded(each) ? BigInt(source) : each)));
  for (const [i, object] of objectsOf(value).entries()) takeTemplate(object, exact[i]);
  return value;
}

/**
 * Parses objects that have no pod template, and so no integer that must stay exact. Rejects deep nesting as `parseExact` does.
 *
 * @throws as `parseExact`
 */
export function parseRounded(text: string): unknown {
  if (text.length > SCANNED_LENGTH && isTooDeep(text)) throw new NestingError(`nested deeper than ${LEVELS_MAX} levels`);
  return JSON.parse(text) as unknown;
}

function isTooDeep(text: string): boolean {
  let levels = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // skips a string
        do at = text.indexOf('"', at + 1);
        while (at !== -1 && isEscaped(text, at));
        if (at === -1) return false;
        break;
      case 0x5b: // [
      case 0x7b: // {
        if (++levels > LEVELS_MAX) return true;
        break;
      case 0x5d: // ]
      case 0x7d: // }
        levels--;
    }
  }
  return false;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes++;
  return backslashes % 2 === 1;
}

/** JSON.stringify that writes the digits of bigints. */
export function exactText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    // The error is caused by a bigint. A replacer on every call would cost several times as much.
    if (!(error instanceof TypeError)) throw error;
    return JSON.stringify(value, (_key, each: unknown) => exactNumber(each));
  }
}

/** Replacer value for JSON.stringify: a bigint as its digits, other values unchanged. */
export function exactNumber(value: unknown): unknown {
  return typeof value === "bigint" ? rawJSON(String(value)) : value;
}

function isRounded(value: unknown): boolean {
  return typeof value === "number" && !Number.isSafeInteger(value);
}

/** Returns all objects in `value` in a fixed order, so that the objects of two parses of the same text correspond. */
function objectsOf(value: unknown): readonly Fields[] {
  if (!isObject(value)) return [];
  return withItems(value)
    .flatMap((object) => [object, ...Object.values(object).filter(isObject)])
    .flatMap(withItems);
}

function withItems(object: Fields): readonly Fields[] {
  const items = object["items"];
  return Array.isArray(items) ? [object, ...items.filter(isObject)] : [object];
}

function templateOf(object: Fields | undefined): Fields | undefined {
  const spec = object?.["spec"];
  return isObject(spec) && isObject(spec["template"]) ? spec["template"] : undefined;
}

function takeTemplate(object: Fields, exact: Fields | undefined): void {
  const [rounded, template] = [templateOf(object), templateOf(exact)];
  if (rounded === undefined || template === undefined) return;
  takeLabels(rounded, template);
  takeLabels(rounded["metadata"], template["metadata"]);
  (object["spec"] as Fields)["template"] = template; // templateOf has found a template
}

/** EJ2: replaces the labels of the exact template by those of JSON.parse. A stripped template has them at its top level. */
function takeLabels(rounded: unknown, exact: unknown): void {
  if (isObject(rounded) && isObject(exact) && "labels" in exact) exact["labels"] = rounded["labels"];
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
