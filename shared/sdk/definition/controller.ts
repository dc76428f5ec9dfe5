/** `defineController`: a controller as plain data with its function. */
import type { AnyKind, FieldsOf, KindData } from "./kind.ts";
import type { Context, Duration, KnownResult, Meta, Result } from "./context.ts";
import type { Mask, See } from "./see.ts";
import type { Mapping, Only, Owned, Place, Watched } from "./sources.ts";

type Values = Readonly<Record<string, readonly string[]>>;
type HasPath<T, P> = P extends `${infer Head}.${infer Rest}`
  ? Head extends keyof T
    ? HasPath<NonNullable<T[Head]>, Rest>
    : false
  : P extends keyof T
    ? true
    : false;
type KnownPaths<T, F> = {
  readonly [P in keyof F]: HasPath<T & { readonly metadata: Meta }, P> extends true ? readonly string[] : never;
};

/** Which primaries are synced. `"*"` is any value. */
export interface Where {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly namespaces?: readonly string[];
  /** Permitted values by path: `{ "status.phase": ["Failed"] }`. */
  readonly fields?: Values;
}

/** A definition as plain data, which can be stored, signed and sent. */
export interface Definition {
  readonly name: string;
  readonly primary: KindData;
  /** Visible fields of the primary, defaults included. */
  readonly see: Mask;
  readonly annotations: readonly string[];
  readonly where: Where;
  readonly owns: readonly OwnedData[];
  readonly watches: readonly WatchedData[];
  readonly reads: readonly ReadData[];
  readonly resync?: Duration;
  /** Keys that are synced at a time. */
  readonly concurrency: number;
}

export interface OwnedData {
  readonly kind: KindData;
  readonly see: Mask;
  /** Overrides whether objects that are no longer desired are deleted. */
  readonly prune?: boolean;
}

export interface WatchedData {
  readonly kind: KindData;
  readonly place?: Place;
  readonly by: Mapping;
  readonly see: Mask;
}

export interface ReadData {
  readonly kind: KindData;
  readonly place?: Place;
}

const CONTROLLER = Symbol.for("deltaloop.controller");

declare const types: unique symbol;

/** The kinds of a definition as types: the primary, and the lists `owns`, `watches` and `reads`. */
export interface ControllerTypes<P = unknown, O = unknown, W = unknown, R = unknown> {
  readonly primary: P;
  readonly owns: O;
  readonly watches: W;
  readonly reads: R;
}

/** `T`: the kinds that it names, for tests of it. */
export interface Controller<T = unknown> {
  /** The property by which a controller is recognized, also one of another copy of this package. */
  readonly [CONTROLLER]: true;
  readonly [types]?: T;
  readonly name: string;
  readonly definition: Definition;
  /** Takes what `createContext` returns for this definition. */
  sync(context: unknown): Promise<unknown>;
}

type Awaitable<T> = T | Promise<T>;

interface Defined<
  P extends AnyKind,
  A extends string,
  M extends See<FieldsOf<P>>,
  F extends Values,
  O extends readonly (AnyKind | Owned)[],
  W extends readonly Watched[],
  R extends readonly (AnyKind | Only)[],
  X extends Awaitable<Result<P, O> | undefined | void>,
> {
  /** A DNS label of at most 32 characters; the field manager is `deltaloop-<name>`. */
  readonly name: string;
  readonly for: P;
  readonly where?: Where & { readonly fields?: F & KnownPaths<FieldsOf<P>, F> };
  /** Visible fields of the primary, beyond the default. A field named here replaces the default of that field. */
  readonly see?: M;
  /** Annotations of the primary whose values are visible. */
  readonly annotations?: readonly A[];
  readonly owns?: O;
  readonly watches?: W;
  /** The objects that `live` may read: a kind in the primary's namespace, or those that `only` names. */
  readonly reads?: R;
  /** Syncs every key this often. Default: never. */
  readonly resync?: Duration;
  /** Default: 5. */
  readonly concurrency?: number;
  sync(context: Context<P, M, A, O, W, R>): X & Awaitable<Result<P, O> | undefined | void> & KnownResult<X, P>;
}

const CONCURRENCY = 5;

/** Defines a controller. Nothing runs and nothing is checked until `deltaloop` loads the file. */
// An empty mask is valid for every kind.
export function defineController<
  P extends AnyKind,
  const A extends string = never,
  const M extends See<FieldsOf<P>> = {},
  const F extends Values = {},
  const O extends readonly (AnyKind | Owned)[] = readonly [],
  const W extends readonly Watched[] = readonly [],
  const R extends readonly (AnyKind | Only)[] = readonly [],
  X extends Awaitable<Result<P, O> | undefined | void> = Awaitable<Result<P, O> | undefined>,
>(defined: Defined<P, A, M, F, O, W, R, X>): Controller<ControllerTypes<P, O, W, R>> {
  const { name, for: primary, where = {}, see = {}, annotations = [], owns = [], watches = [], reads = [], resync } = defined;
  const definition: Definition = {
    name,
    primary: primary.data,
    see: over(primary.data.seen, see as Mask), // See is a Mask of known fields
    annotations,
    where,
    owns: owns.map(ownedData),
    watches: watches.map(({ watches: { data }, place, by, see: mask }) => ({
      kind: data,
      ...(place && { place }),
      by,
      see: over(statusSeen(data), mask as Mask),
    })),
    reads: reads.map((read) => ("only" in read ? { kind: read.only.data, place: read.place } : { kind: read.data })),
    ...(resync !== undefined && { resync }),
    concurrency: defined.concurrency ?? CONCURRENCY,
  };
  // the context of this definition has the fields that its types name
  const sync = async (context: unknown): Promise<unknown> => await defined.sync(context as Context<P, M, A, O, W, R>);
  return { [CONTROLLER]: true, name, definition, sync };
}

function ownedData(owned: AnyKind | Owned): OwnedData {
  if (!("owns" in owned)) return { kind: owned.data, see: statusSeen(owned.data) };
  const { owns, see, prune } = owned;
  return { kind: owns.data, see: over(statusSeen(owns.data), see as Mask), ...(prune !== undefined && { prune }) };
}

function statusSeen({ seen }: KindData): Readonly<Record<string, Mask>> {
  return seen["status"] === undefined ? {} : { status: seen["status"] };
}

function over(defaults: Readonly<Record<string, Mask>>, mask: Mask): Mask {
  return typeof mask === "object" ? { ...defaults, ...mask } : mask;
}
