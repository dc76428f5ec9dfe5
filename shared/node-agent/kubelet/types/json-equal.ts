/** Compares JSON values independently of key order; a field with the value `undefined` counts as absent. */

/**
 * Whether two JSON values are equal. Comparing an object with itself takes constant time. Allocates only key lists, because every pod
 * change is compared. @param isAbsent whether a field with this value counts as absent; default: `undefined` does
 */
export function jsonEqual(a: unknown, b: unknown, isAbsent: (value: unknown) => boolean = isUndefined): boolean {
  if (a === b) return true;
  if (isAbsent(a) || isAbsent(b)) return isAbsent(a) && isAbsent(b);
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((entry, index) => jsonEqual(entry, b[index], isAbsent));
  let fieldsOfA = 0;
  for (const key of Object.keys(a)) {
    const value = valueAt(a, key);
    if (isAbsent(value)) continue;
    fieldsOfA++;
    if (!Object.hasOwn(b, key) || !jsonEqual(value, valueAt(b, key), isAbsent)) return false;
  }
  for (const key of Object.keys(b)) if (!isAbsent(valueAt(b, key))) fieldsOfA--;
  return fieldsOfA === 0;
}

function isUndefined(value: unknown): boolean {
  return value === undefined;
}

/** Serializes with sorted keys, so that equal values have equal strings. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((entry) => canonicalJson(entry)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = fields(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, entry]) => `${JSON.stringify(key)}:${canonicalJson(entry)}`).join(",")}}`;
}

function fields(object: object): readonly (readonly [string, unknown])[] {
  return Object.entries(object).filter(([, value]) => value !== undefined);
}

function valueAt(object: object, key: string): unknown {
  return (object as Readonly<Record<string, unknown>>)[key]; // callers pass only JSON
}
