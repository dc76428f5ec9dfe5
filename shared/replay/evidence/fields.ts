/** Fields of untrusted JSON: a value of another type counts as absent. */

export type Json = Readonly<Record<string, unknown>>;

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectIn(value: unknown, field: string): Json {
  const inner = isObject(value) ? value[field] : undefined;
  return isObject(inner) ? inner : {};
}

export function listIn(value: unknown, field: string): readonly Json[] {
  const inner = isObject(value) ? value[field] : undefined;
  return Array.isArray(inner) ? inner.filter(isObject) : [];
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The result of `map` for each object of a list; nothing for other values. */
export function mapObjects<T>(list: unknown, map: (object: Json) => T): readonly T[] {
  const out: T[] = [];
  if (Array.isArray(list)) for (const each of list) if (isObject(each)) out.push(map(each));
  return out;
}

export function textIn(value: unknown, field: string): string | undefined {
  const inner = isObject(value) ? value[field] : undefined;
  return typeof inner === "string" ? inner : undefined;
}

export function numberIn(value: unknown, field: string): number | undefined {
  const inner = isObject(value) ? value[field] : undefined;
  return typeof inner === "number" ? inner : undefined;
}

export function textsIn(value: unknown, field: string): readonly string[] {
  const inner = isObject(value) ? value[field] : undefined;
  return Array.isArray(inner) ? inner.filter((each) => typeof each === "string") : [];
}

/** Texts and numbers by name. Uses a loop for speed, as in `defined`. */
export function quantitiesIn(value: unknown, field: string): Readonly<Record<string, string>> {
  const quantities: Record<string, string> = {};
  const found = objectIn(value, field);
  for (const name of Object.keys(found)) {
    const each = found[name];
    if (typeof each === "string") quantities[name] = each;
    else if (typeof each === "number") quantities[name] = String(each);
  }
  return quantities;
}

/** Milliseconds since the epoch. */
export function timeIn(value: unknown, field: string): number | undefined {
  const ms = Date.parse(textIn(value, field) ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}

export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** `fields` without those that are undefined. A loop, since it runs many times for each recorded event. */
export function defined<T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: Partial<T> = {};
  for (const name of Object.keys(fields) as (keyof T)[]) if (fields[name] !== undefined) kept[name] = fields[name]; // the object's own keys
  return kept as { readonly [K in keyof T]?: Exclude<T[K], undefined> }; // without undefined
}
