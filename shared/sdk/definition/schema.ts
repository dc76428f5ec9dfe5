/**
 * The schema builder `s`. It expresses what a structural schema can express and no more. Nothing validates in a function, because the API
 * server has validated and defaulted the object.
 */
import type { PodTemplateSpec } from "../kinds/types.ts";
import type { SchemaNode } from "./schema-node.ts";

declare const inferred: unique symbol;

/** A schema of `T`; `M` is the mask of its visible fields, `never` if nothing of it is visible. */
export interface Schema<T = unknown, Opt extends boolean = boolean, M = unknown> {
  readonly [inferred]?: { readonly type: T; readonly mask: M };
  readonly isOptional: Opt;
  readonly node: SchemaNode;
  optional(): Schema<T, true, M>;
  describe(text: string): Schema<T, Opt, M>;
  /** The API server rejects a change of the value. */
  immutable(): Schema<T, Opt, M>;
  /** Never visible; `live()` reads it. */
  secret(): Schema<T, Opt, never>;
}

/** A schema of a list. */
export interface ListSchema<E, Opt extends boolean, M> extends Schema<readonly E[], Opt, M> {
  /** Field managers own elements, identified by these fields, instead of the whole list. */
  mapKeys(...keys: readonly (keyof E & string)[]): ListSchema<E, Opt, M>;
}

/** A status condition. Source: apimachinery pkg/apis/meta/v1/types.go Condition. */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
  readonly observedGeneration?: number;
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

type TypeOf<S> = S extends { readonly [inferred]?: { readonly type: infer T } } ? T : never;
type MaskOf<S> = S extends { readonly [inferred]?: { readonly mask: infer M } } ? M : never;
type Properties = Readonly<Record<string, Schema>>;
type OptionalKeys<P> = { [K in keyof P]: P[K] extends { readonly isOptional: true } ? K : never }[keyof P];
type Flat<T> = { readonly [K in keyof T]: T[K] };
type ObjectOf<P> = Flat<
  { readonly [K in Exclude<keyof P, OptionalKeys<P>>]: TypeOf<P[K]> } & { readonly [K in OptionalKeys<P>]?: TypeOf<P[K]> }
>;
type AllVisible<P> = [
  { [K in keyof P]: [MaskOf<P[K]>] extends [true] ? ([MaskOf<P[K]>] extends [never] ? K : never) : K }[keyof P],
] extends [never]
  ? true
  : false;
/** `true` if every field is visible, otherwise the mask of those that are. */
type ObjectMask<P> =
  AllVisible<P> extends true ? true : { readonly [K in keyof P as [MaskOf<P[K]>] extends [never] ? never : K]: MaskOf<P[K]> };
/** A list or map with an element that is not entirely visible is not visible. */
type ElementMask<M> = [M] extends [never] ? never : [M] extends [true] ? true : never;

interface Numbers {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
}

interface Texts {
  readonly default?: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly format?: "date-time" | "uri" | "ipv4" | "ipv6" | "cidr" | "byte";
}

/** A quantity such as `500m` or `1Gi`. Source: apimachinery pkg/api/resource/quantity.go ParseQuantity. */
const QUANTITY = "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$";
const INT_OR_STRING = {
  anyOf: [{ type: "integer" }, { type: "string" }],
  "x-kubernetes-int-or-string": true,
} as const satisfies SchemaNode;
/** Bounds and patterns are upstream's. Source: apimachinery pkg/apis/meta/v1/types.go Condition. */
const CONDITION: SchemaNode = {
  type: "object",
  required: ["lastTransitionTime", "message", "reason", "status", "type"],
  properties: {
    type: {
      type: "string",
      maxLength: 316,
      pattern: "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    },
    status: { type: "string", enum: ["True", "False", "Unknown"] },
    reason: { type: "string", minLength: 1, maxLength: 1024, pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
    message: { type: "string", maxLength: 32_768 },
    lastTransitionTime: { type: "string", format: "date-time" },
    observedGeneration: { type: "integer", format: "int64", minimum: 0 },
  },
};
/** Recognized by its text, since nothing here evaluates CEL. */
const IMMUTABLE_RULE = "self == oldSelf";

/** The schema builder. */
export const s = {
  string: (o: Texts = {}): Schema<string, false, true> => schema({ type: "string", ...o }),
  integer: (o: Numbers = {}): Schema<number, false, true> => schema({ type: "integer", format: "int64", ...o }),
  number: (o: Numbers = {}): Schema<number, false, true> => schema({ type: "number", ...o }),
  boolean: (o: { readonly default?: boolean } = {}): Schema<boolean, false, true> => schema({ type: "boolean", ...o }),
  enum: <const V extends string>(values: readonly V[], o: { readonly default?: NoInfer<V> } = {}): Schema<V, false, true> =>
    schema({ type: "string", enum: values, ...o }),
  array: <T, M>(
    item: Schema<T, false, M>,
    o: { readonly minItems?: number; readonly maxItems?: number } = {},
  ): ListSchema<T, false, ElementMask<M>> =>
    list({ type: "array", ...o, "x-kubernetes-list-type": "atomic", items: item.node, ...hiddenWith(item.node) }),
  map: <T, M>(item: Schema<T, false, M>): Schema<Readonly<Record<string, T>>, false, ElementMask<M>> =>
    schema({ type: "object", additionalProperties: item.node, ...hiddenWith(item.node) }),
  object: <const P extends Properties>(properties: P): Schema<ObjectOf<P>, false, ObjectMask<P>> => {
    const required = Object.entries(properties).flatMap(([name, { isOptional, node }]) =>
      isOptional || node.default !== undefined ? [] : [name],
    );
    const nodes = Object.fromEntries(Object.entries(properties).map(([name, { node }]) => [name, node]));
    return schema({ type: "object", ...(required.length > 0 && { required }), properties: nodes });
  },
  /** `500m`, `1Gi`, or a number. */
  quantity: (): Schema<string | number, false, true> => schema({ ...INT_OR_STRING, pattern: QUANTITY }),
  intOrString: (): Schema<string | number, false, true> => schema(INT_OR_STRING),
  /** Status conditions, one of each type. */
  conditions: (): Schema<readonly Condition[], true, true> =>
    schema({ type: "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], items: CONDITION }, true),
  /** A pod template: never visible, because its env values may be secrets; `live()` reads it. */
  podTemplate: (): Schema<PodTemplateSpec, false, never> =>
    schema({ type: "object", "x-kubernetes-preserve-unknown-fields": true, hidden: true }),
  /** Any JSON. */
  raw: (): Schema<Json, false, true> => schema({ "x-kubernetes-preserve-unknown-fields": true }),
};

/** The declared types describe `node`; nothing at run time can. */
function schema<T, Opt extends boolean, M>(node: SchemaNode, isOptional: boolean = false): Schema<T, Opt, M> {
  const derived = (changes: Partial<SchemaNode>): Schema<T, Opt, M> => schema({ ...node, ...changes }, isOptional);
  return {
    isOptional: isOptional as Opt, // the caller's type has the same value
    node,
    optional: () => schema(node, true),
    describe: (description) => derived({ description }),
    immutable: () => derived({ "x-kubernetes-validations": [{ rule: IMMUTABLE_RULE, message: "is immutable" }] }),
    secret: () => schema({ ...node, hidden: true }, isOptional),
  };
}

function list<E, M>(node: SchemaNode): ListSchema<E, false, M> {
  return {
    ...schema<readonly E[], false, M>(node),
    mapKeys: (...keys) => list({ ...node, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys }),
  };
}

function hiddenWith(element: SchemaNode): { readonly hidden?: true } {
  return hasHidden(element) ? { hidden: true } : {};
}

function hasHidden({ hidden, properties = {} }: SchemaNode): boolean {
  return hidden === true || Object.values(properties).some(hasHidden);
}
