/**
 * JSON whose pod templates keep every integer. A template has fields of Go's int64 that a user may set to anything
 * (`terminationGracePeriodSeconds: 9223372036854775807`), and we send on what we read, so a rounded one is another template or,
 * beyond int64, one that the server refuses.
 *
 *   EJ1 within `spec.template` an integer that no JavaScript number holds is a bigint; anything else, and everything outside of
 *      templates, is as JSON.parse has it, so code that counts never meets a bigint.
 *   EJ2 a template's labels are as JSON.parse has them, too: what is cached of a template is plain JSON.
 *   EJ3 text without such an integer costs what JSON.parse costs, and text that names no template two searches.
 *
 * A bigint is a value: it is compared, cloned and frozen like any other. JSON.stringify rejects it, so a template is
 * serialized by `exactText`.
 */

/** What TypeScript does not know yet: the proposal "JSON.parse source text access" of ECMAScript. */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
  rawJSON(text: string): object;
};

/** A long integer as a field or in a list; one in a text may look like it, which costs a second look. */
const LONG_INTEGER = /[:[,]\s*-?\d{16}/;
/** Without either no field has this name. */
const [TEMPLATE, ESCAPED] = ['"template"', String.raw`\u`];
/** int64 has 19 digits. */
const INTEGER = /^-?\d{16,19}$/;

type Fields = Record<string, unknown>;

/**
 * An API object, a list of them, or what holds either in one of its fields: a watch event, a capture's line, an audit event or a
 * list of those.
 *
 * @throws {SyntaxError} as JSON.parse does
 */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!text.includes(TEMPLATE) && !text.includes(ESCAPED)) return value;
  if (!objectsOf(value).some((object) => templateOf(object)) || !LONG_INTEGER.test(text)) return value;
  const exact = objectsOf(parse(text, (_key, each, { source = "" }) => (INTEGER.test(source) && isRounded(each) ? BigInt(source) : each)));
  for (const [i, object] of objectsOf(value).entries()) takeTemplate(object, exact[i]);
  return value;
}

/** What JSON.stringify makes of it, with the digits of every bigint. */
export function exactText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    // A bigint. A replacer for all that is written would make each text several times as dear.
    if (!(error instanceof TypeError)) throw error;
    return JSON.stringify(value, (_key, each: unknown) => exactNumber(each));
  }
}

/** For a replacer of JSON.stringify: a bigint as the number it is, all else as it stands. */
export function exactNumber(value: unknown): unknown {
  return typeof value === "bigint" ? rawJSON(String(value)) : value;
}

function isRounded(value: unknown): boolean {
  return typeof value === "number" && !Number.isSafeInteger(value);
}

/** In one order, so that those of two readings of a text belong together. */
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
  (object["spec"] as Fields)["template"] = template; // it has a template
}

/** EJ2; of a template that is stripped already, they are its own. */
function takeLabels(rounded: unknown, exact: unknown): void {
  if (isObject(rounded) && isObject(exact) && "labels" in exact) exact["labels"] = rounded["labels"];
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
