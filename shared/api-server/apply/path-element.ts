/**
 * One step of a field's path: a field's name, the keys of a list entry, or the value of a set's entry.
 *
 * PE1 two elements are equal exactly if their ids are; an id is the text of the step in `fieldsV1`.
 *
 * Source: github.com/kubernetes-sigs/structured-merge-diff fieldpath/{element,serialize-pe}.go.
 */
import { isObject, type Json } from "@deltaloop/base";
import { compareText, compareValues, goJson, goQuote } from "./go-json.ts";

export type Keys = readonly (readonly [name: string, value: Json])[];

export type PathElement =
  | { readonly kind: "field"; readonly id: string; readonly name: string }
  | { readonly kind: "key"; readonly id: string; readonly keys: Keys }
  | { readonly kind: "value"; readonly id: string; readonly value: Json }
  | { readonly kind: "index"; readonly id: string; readonly index: number };

export type Path = readonly PathElement[];

export function fieldElement(name: string): PathElement {
  return { kind: "field", id: `f:${name}`, name };
}

export function keyElement(keys: Keys): PathElement {
  const sorted = keys.toSorted(([a], [b]) => compareText(a, b));
  return { kind: "key", id: `k:{${sorted.map(([name, value]) => `${JSON.stringify(name)}:${goJson(value)}`).join(",")}}`, keys: sorted };
}

export function valueElement(value: Json): PathElement {
  return { kind: "value", id: `v:${goJson(value)}`, value };
}

/** The element of a key in `fieldsV1`, or undefined for a kind that this release does not know. @throws {SyntaxError} */
export function parseElement(text: string): PathElement | undefined {
  if (text.length < 2) throw new SyntaxError("key must be 2 characters long:");
  if (text[1] !== ":") throw new SyntaxError(`missing colon: ${text}`);
  const rest = text.slice(2);
  switch (text[0]) {
    case "f":
      return fieldElement(rest);
    case "v":
      return valueElement(JSON.parse(rest) as Json); // it is some JSON value
    case "k": {
      const keys = JSON.parse(rest) as Json; // as above
      if (!isObject(keys)) throw new SyntaxError(`expected an object: ${rest}`);
      return keyElement(Object.entries(keys));
    }
    case "i":
      if (!/^[+-]?\d+$/u.test(rest)) throw new SyntaxError(`invalid syntax: ${rest}`);
      return { kind: "index", id: `i:${Number(rest)}`, index: Number(rest) };
    default:
      return undefined;
  }
}

const RANKS = { field: 0, key: 1, value: 2, index: 3 } as const;

export function compareElements(a: PathElement, b: PathElement): number {
  if (a.id === b.id) return 0;
  if (a.kind === "field" && b.kind === "field") return compareText(a.name, b.name);
  if (a.kind === "key" && b.kind === "key") return compareKeys(a.keys, b.keys);
  if (a.kind === "value" && b.kind === "value") return compareValues(a.value, b.value);
  if (a.kind === "index" && b.kind === "index") return a.index - b.index;
  return RANKS[a.kind] - RANKS[b.kind];
}

function compareKeys(a: Keys, b: Keys): number {
  for (const [i, [name, value]] of a.entries()) {
    const other = b[i];
    if (other === undefined) return 1;
    const order = compareText(name, other[0]) || compareValues(value, other[1]);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** `.spec.containers[name="web"].image` */
export function pathText(path: Path): string {
  return path.map(elementText).join("");
}

export function elementText(element: PathElement): string {
  switch (element.kind) {
    case "field":
      return `.${element.name}`;
    case "key":
      return `[${element.keys.map(([name, value]) => `${name}=${valueText(value)}`).join(",")}]`;
    case "value":
      return `[=${valueText(element.value)}]`;
    case "index":
      return `[${element.index}]`;
  }
}

/** Source: github.com/kubernetes-sigs/structured-merge-diff value.ToString. */
function valueText(value: Json): string {
  if (typeof value === "string") return goQuote(value);
  if (Array.isArray(value)) return `[${value.map(valueText).join(",")}]`;
  if (!isObject(value)) return String(value);
  return Object.entries(value)
    .map(([key, each]) => `${key}=${valueText(each)}`)
    .join("");
}
