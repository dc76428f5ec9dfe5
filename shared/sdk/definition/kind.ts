/** A kind as a value: it identifies the kind, and calling it makes the body of an object. */
import type { Mask } from "./see.ts";
import type { SchemaNode } from "./schema-node.ts";

/** Identifies a kind to the API server. */
export interface KindId<N extends string = string> {
  /** "" for the core group. */
  readonly group: string;
  readonly version: string;
  readonly kind: N;
  /** The resource in paths and RBAC rules: `deployments`. */
  readonly plural: string;
  readonly scope: "Namespaced" | "Cluster";
}

/** A kind as plain data. */
export interface KindData extends KindId {
  /** Whether it has the subresource `status`. */
  readonly status: boolean;
  /** The visible fields of a primary unless `see` names others; owned and watched objects show `status` of it. */
  readonly seen: Readonly<Record<string, Mask>>;
  /** Present for a kind that `customResource` describes. */
  readonly crd?: CustomResourceData;
}

/** The fields of a CustomResourceDefinition other than the kind's identity. */
export interface CustomResourceData {
  readonly shortNames: readonly string[];
  /** Printer columns: JSONPath by heading. */
  readonly columns: Readonly<Record<string, string>>;
  readonly spec: SchemaNode;
  readonly status?: SchemaNode;
}

declare const made: unique symbol;
declare const shape: unique symbol;

/** An object that `sync` wants to exist, of the kind `N`. */
export interface Applied<N extends string = string> {
  readonly [made]: N;
}

/** A kind with metadata and the fields `T`; the mask `D` names those that are visible by default. */
export interface Kind<T, N extends string, D> extends KindId<N> {
  (body: Body<T>): Applied<N>;
  /** Repeated here to improve error messages: the compiler reports the first property that differs. */
  readonly kind: N;
  readonly data: KindData;
  readonly [shape]: { readonly fields: T; readonly seen: D };
}

/** Any kind. */
export interface AnyKind extends KindId {
  (body: never): Applied;
  readonly data: KindData;
  readonly [shape]: { readonly fields: unknown; readonly seen: unknown };
}

export type FieldsOf<K> = K extends { readonly [shape]: { readonly fields: infer T } } ? T : never;
/** The default mask of a primary. */
export type SeenOf<K> = K extends { readonly [shape]: { readonly seen: infer D } } ? D : never;
export type NameOf<K> = K extends KindId<infer N> ? N : never;

/** Makes each field of `T` optional; `undefined` means absent. */
export type Wanted<T> = T extends string | number | boolean | null | undefined
  ? T
  : T extends readonly (infer E)[]
    ? readonly Wanted<E>[]
    : { readonly [K in keyof T]?: Wanted<T[K]> | undefined };

interface BodyMeta {
  readonly name: string;
  /** Namespace of the object: required if the primary is cluster-scoped; otherwise the primary's namespace. */
  readonly namespace?: string | undefined;
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

export type Body<T> = { readonly metadata: BodyMeta } & Wanted<T>;

/** `status` alone, if the kind has one. */
export type StatusOnly<T> = "status" extends keyof T ? { readonly status: true } : Record<never, true>;

/** The apiVersion of a kind: `v1`, `apps/v1`. */
export function apiVersionOf({ group, version }: Pick<KindId, "group" | "version">): string {
  return group === "" ? version : `${group}/${version}`;
}

/** Reports whether a kind is watched as PartialObjectMetadata, so that only its metadata is visible. */
export function isMetadataOnly({ group, kind }: Pick<KindId, "group" | "kind">): boolean {
  return group === "" && (kind === "Secret" || kind === "ConfigMap");
}

/** Declares a built-in or third-party kind, whose fields `T` names: `kind<Certificate>()({ group: "cert-manager.io", … })`. */
export function kind<T extends object>(): <const N extends string>(
  id: KindId<N> & { readonly status?: boolean },
) => Kind<T, N, StatusOnly<T>> {
  return ({ status = true, ...id }) => makeKind({ ...id, status, seen: status ? { status: true } : {} });
}

/** The function behind a kind; the caller's type must describe what `data` identifies. */
export function makeKind<T, N extends string, D>(data: KindData & { readonly kind: N }): Kind<T, N, D> {
  const { group, version, kind: name, plural, scope } = data;
  const make = (body: object): object => ({ apiVersion: apiVersionOf(data), kind: name, ...present(body) });
  // the marks of Applied and Kind are types only
  return Object.assign(make, { group, version, kind: name, plural, scope, data }) as unknown as Kind<T, N, D>;
}

/** A copy without the fields that are `undefined`. */
function present<T>(value: T): T {
  if (Array.isArray(value)) return value.map(present) as T; // same elements
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(fields.map(([key, field]) => [key, present(field)])) as T; // same fields
}
