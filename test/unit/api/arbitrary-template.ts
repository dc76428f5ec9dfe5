/**
 * Random pod templates, equivalent spellings of a template, and every single change that makes it a different template. All three are
 * derived from the layout.
 */
import fc from "fast-check";
import { type GoStruct, type GoType, podTemplateLayout } from "../../../shared/kube/pod-template/pod-template-layout.ts";
import { OWN_RELEASE } from "../../../shared/kube/releases.ts";
import type { Release } from "../../../shared/kube/releases.ts";
import { parseQuantity, quantityNanos } from "../../../shared/kube/quantity/quantity.ts";
import type { PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";

type Json = Record<string, unknown>;

const TEXT = fc.constantFrom("a", "web", "x y", "ü", "0");
const QUANTITY = fc.constantFrom("1", "500m", "0.5", "64Mi", "1Gi", "1024Mi", "1e3", "100Ti", "0");
/** Map keys; the last two are ordered differently by bytes and by UTF-16. */
const MAP_KEY = fc.constantFrom("a", "app", "cpu", "__proto__", "1", "ﬀ", "𝒳");
/** Fields that do not occur in a template. */
const SKIPPED = new Set(["managedFields", "creationTimestamp", "deletionTimestamp"]);

/** Random templates with the fields of a release. */
export function arbitraryTemplateOf(release: Release): fc.Arbitrary<PodTemplateSpec> {
  return arbitraryStruct(podTemplateLayout(release), 0).map((template) => template as PodTemplateSpec);
}

export const arbitraryTemplate = arbitraryTemplateOf(OWN_RELEASE);

function arbitraryStruct(struct: GoStruct, depth: number): fc.Arbitrary<Json> {
  const keys = [...struct.byKey.keys()].filter((key) => !SKIPPED.has(key));
  const maxLength = Math.min(keys.length, depth < 4 ? 6 : 3);
  return fc.subarray(keys, { minLength: Math.min(maxLength, depth < 4 ? 2 : 1), maxLength }).chain((chosen) => {
    const fields = chosen.map((key): [string, fc.Arbitrary<unknown>] => [key, arbitraryValue(struct.byKey.get(key) as GoType, depth + 1)]);
    return fc.record(Object.fromEntries(fields)) as fc.Arbitrary<Json>;
  });
}

function arbitraryValue(type: GoType, depth: number): fc.Arbitrary<unknown> {
  switch (type.kind) {
    case "string":
      return TEXT;
    case "bool":
      return fc.boolean();
    case "int":
      return fc.integer({ min: 0, max: 100 });
    case "quantity":
      return QUANTITY;
    case "intOrString":
      return fc.oneof(TEXT, fc.integer({ min: 0, max: 100 }));
    case "time":
      return fc.constant(null);
    case "pointer":
      return arbitraryValue(type.element, depth);
    case "list":
      return fc.array(arbitraryValue(type.element, depth), { maxLength: 2 });
    case "map":
      return fc
        .uniqueArray(fc.tuple(MAP_KEY, arbitraryValue(type.element, depth)), { maxLength: 2, selector: ([key]) => key })
        .map((entries) => Object.fromEntries(entries));
    case "struct":
      return arbitraryStruct(type.struct, depth);
    default:
      return type satisfies never;
  }
}

/** Returns the same template in another spelling. `next` returns a number from 0 to n − 1. */
export function respelled(template: PodTemplateSpec, next: (n: number) => number, release = OWN_RELEASE): PodTemplateSpec {
  const copy = respelledStruct(podTemplateLayout(release), template as Json, next) as PodTemplateSpec;
  if (next(2) === 0) copy.metadata = { ...copy.metadata, labels: { ...copy.metadata?.labels, "pod-template-hash": String(next(9)) } };
  return copy;
}

function respelledStruct(struct: GoStruct, value: Json, next: (n: number) => number): Json {
  const entries = Object.entries(value).map(([key, field]): [string, unknown] => {
    const type = struct.byKey.get(key);
    return [key, type === undefined ? field : respelledValue(type, field, next)];
  });
  for (const [key, type] of struct.byKey) {
    if (key in value && value[key] !== null) continue;
    if (next(6) === 0) entries.push([key, next(2) === 0 ? null : zeroOf(type)]);
  }
  entries.sort(() => next(3) - 1);
  return Object.fromEntries(entries.filter(([key, field]) => !(isZero(struct.byKey.get(key), field) && next(2) === 0)));
}

function respelledValue(type: GoType, value: unknown, next: (n: number) => number): unknown {
  if (value === null) return value;
  switch (type.kind) {
    case "quantity":
      return spelling(String(value), next);
    case "pointer":
      return respelledValue(type.element, value, next);
    case "list":
      return (value as unknown[]).map((element) => respelledValue(type.element, element, next));
    case "map": {
      const entries = Object.entries(value as Json).map(([key, entry]): [string, unknown] => [
        key,
        respelledValue(type.element, entry, next),
      ]);
      return Object.fromEntries(next(2) === 0 ? entries : entries.toReversed());
    }
    case "struct":
      return respelledStruct(type.struct, value as Json, next);
    default:
      return value;
  }
}

function spelling(text: string, next: (n: number) => number): string {
  const quantity = parseQuantity(text);
  if (quantity === undefined) return text;
  const nanos = quantityNanos(quantity);
  return [text, `${nanos}n`, `${nanos}e-9`, `+${text}`, `0${text}`][next(5)] ?? text;
}

/** The value of an absent field; for a pointer, only absence itself (null). */
function zeroOf(type: GoType): unknown {
  const zeros = {
    string: "",
    bool: false,
    int: 0,
    quantity: "0m",
    intOrString: 0,
    time: null,
    pointer: null,
    list: [],
    map: {},
    struct: {},
  };
  return zeros[type.kind];
}

function isZero(type: GoType | undefined, value: unknown): boolean {
  if (value === null) return true;
  return type !== undefined && type.kind !== "pointer" && JSON.stringify(zeroOf(type)) === JSON.stringify(value);
}

/** Returns every template that differs in one change: a value changed, added or removed at one place. */
export function neighbours(
  template: PodTemplateSpec,
  release = OWN_RELEASE,
): readonly { readonly change: string; readonly template: PodTemplateSpec }[] {
  return structNeighbours(podTemplateLayout(release), template as Json, "").map(({ change, value }) => ({
    change,
    template: value as PodTemplateSpec,
  }));
}

interface Neighbour {
  readonly change: string;
  readonly value: unknown;
}

function structNeighbours(struct: GoStruct, value: Json, path: string): Neighbour[] {
  const out: Neighbour[] = [{ change: `${path} unknown field`, value: { ...value, aFieldOfTheFuture: false } }];
  for (const [key, type] of struct.byKey) {
    if (SKIPPED.has(key)) continue;
    const at = `${path}.${key}`;
    const field = value[key];
    if (field !== undefined && field !== null) out.push(...within(valueNeighbours(type, field, at), value, key));
    else if (type.kind === "pointer") out.push({ change: `${at} set to zero`, value: { ...value, [key]: zeroOf(type.element) } });
    if (type.kind === "pointer" && field !== undefined && field !== null)
      out.push({ change: `${at} taken away`, value: { ...value, [key]: null } });
  }
  return out;
}

function within(neighbours: readonly Neighbour[], parent: Json, key: string): Neighbour[] {
  return neighbours.map(({ change, value }) => ({ change, value: { ...parent, [key]: value } }));
}

function valueNeighbours(type: GoType, value: unknown, path: string): Neighbour[] {
  switch (type.kind) {
    case "string":
      return [{ change: `${path} longer`, value: `${String(value)}+` }];
    case "bool":
      return [{ change: `${path} flipped`, value: value !== true }];
    case "int":
      return [{ change: `${path} + 1`, value: Number(value) + 1 }];
    case "quantity":
      return [{ change: `${path} other amount`, value: "7777777" }];
    case "intOrString":
      return [{ change: `${path} other type`, value: typeof value === "number" ? String(value) : 77 }];
    case "time":
      return [];
    case "pointer":
      return valueNeighbours(type.element, value, path);
    case "list":
      return listNeighbours(type.element, value as unknown[], path);
    case "map": {
      const map = value as Json;
      const entries = Object.keys(map).flatMap((key) => mapEntryNeighbours(type.element, map, key, `${path}[${key}]`));
      return [{ change: `${path} one more entry`, value: { ...map, another: zeroOf(type.element) } }, ...entries];
    }
    case "struct":
      return structNeighbours(type.struct, value as Json, path);
    default:
      return type satisfies never;
  }
}

function mapEntryNeighbours(type: GoType, map: Json, key: string, path: string): Neighbour[] {
  const without = Object.entries(map).filter(([other]) => other !== key);
  const changed = valueNeighbours(type, map[key], path).map(({ change, value }) => ({
    change,
    value: Object.fromEntries([...without, [key, value]]),
  }));
  return [...changed, { change: `${path} taken away`, value: Object.fromEntries(without) }];
}

function listNeighbours(type: GoType, list: readonly unknown[], path: string): Neighbour[] {
  const elements = list.flatMap((element, index) => {
    return valueNeighbours(type, element, `${path}[${index}]`).map(({ change, value }) => ({ change, value: list.with(index, value) }));
  });
  const longer = { change: `${path} one more element`, value: [...list, zeroOf(type)] };
  const shorter = list.length === 0 ? [] : [{ change: `${path} one element less`, value: list.slice(1) }];
  return [...elements, longer, ...shorter];
}
