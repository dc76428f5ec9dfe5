/** The input and the result of `sync`. */
import type { AnyKind, Applied, FieldsOf, NameOf, SeenOf, Wanted } from "./kind.ts";
import type { KindIn, MaskIn } from "./sources.ts";
import type { Condition } from "./schema.ts";
import type { Over, Shown } from "./see.ts";

/** `500ms`, `30s`, `5m`, `1h`, `1d`. */
export type Duration = `${number}${"ms" | "s" | "m" | "h" | "d"}`;

/** The visible metadata of an object. */
export interface Meta {
  readonly name: string;
  /** "" for a cluster-scoped object. */
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number;
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly ownerReferences: readonly {
    readonly apiVersion: string;
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    readonly controller?: boolean;
  }[];
}

/** The visible part of an object. */
export type Seen<K, M, A extends string = never> = {
  readonly metadata: Meta & { readonly annotations: { readonly [P in A]?: string } };
} & Shown<FieldsOf<K>, M>;

/** A whole object from a quorum read. */
export type Live<K> = { readonly metadata: Meta & { readonly annotations: Readonly<Record<string, string>> } } & FieldsOf<K>;

type Entry<L extends readonly unknown[], K> = L[number] extends infer E
  ? E extends unknown
    ? KindIn<E> extends K
      ? E
      : never
    : never
  : never;

/** Reads cached objects: all of a kind, or one by name. The namespace defaults to the primary's. */
export interface Lookup<L extends readonly unknown[]> {
  <K extends KindIn<L[number]>>(kind: K): readonly Seen<K, MaskIn<Entry<L, K>>>[];
  <K extends KindIn<L[number]>>(kind: K, name: string, namespace?: string): Seen<K, MaskIn<Entry<L, K>>> | undefined;
}

export interface SyncLog {
  info(message: string, fields?: Readonly<Record<string, string | number | boolean>>): void;
}

/** `object`, `owned` and `watched` show one instant. */
export interface Context<
  P extends AnyKind,
  M,
  A extends string,
  O extends readonly unknown[],
  W extends readonly unknown[],
  R extends readonly unknown[],
> {
  readonly object: Seen<P, Over<SeenOf<P>, M>, A>;
  readonly owned: Lookup<O>;
  readonly watched: Lookup<W>;
  readonly now: Date;
  readonly signal: AbortSignal;
  readonly log: SyncLog;
  /** The whole primary. */
  live(): Promise<Live<P>>;
  live<K extends KindIn<R[number]>>(kind: K, name: string, namespace?: string): Promise<Live<K> | undefined>;
  /** A condition whose lastTransitionTime stays while its status is the same. */
  condition(type: string, status: boolean | "Unknown", reason: string, message?: string): Condition;
}

interface Always {
  readonly events?: readonly { readonly type: "Normal" | "Warning"; readonly reason: string; readonly message: string }[] | undefined;
  /** Requeues the key after a duration or at a time, or earlier if an event enqueues it. */
  readonly again?: Duration | Date | undefined;
}

type SelfOf<P> = { readonly metadata?: SelfMeta } & Omit<Wanted<FieldsOf<P>>, "status">;

type StatusOf<K> = FieldsOf<K> extends { readonly status?: infer St } ? Wanted<NonNullable<St>> : never;

interface SelfMeta {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Writes<P, O extends readonly unknown[]> extends Always {
  /** The whole desired set. An owned object that is not in it is pruned; absent is not `[]`. */
  readonly apply?: readonly Applied<NameOf<KindIn<O[number]>>>[] | undefined;
  /** Owned objects that are neither modified nor pruned. */
  readonly keep?: readonly { readonly kind: string; readonly name: string; readonly namespace?: string }[] | undefined;
  /** Fields of the primary itself. */
  readonly self?: SelfOf<P> | undefined;
  readonly status?: StatusOf<P> | undefined;
  readonly remove?: never;
}

interface Removal extends Always {
  /** Deletes the primary. */
  readonly remove: true;
  readonly apply?: never;
  readonly keep?: never;
  readonly self?: never;
  readonly status?: never;
}

declare const field: unique symbol;

/** The name appears in the compiler's message: the schema has no field `F`. */
interface NoSuchField<F> {
  readonly [field]: F;
}

type KeysOf<T> = T extends unknown ? keyof T : never;

type FieldOf<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never;

/**
 * `S` with an impossible type at each field that `T` lacks. The compiler checks no surplus properties in what a function returns; so the type
 * of the returned value is inferred, and must be assignable to this.
 */
type Known<S, T> = unknown extends T
  ? S
  : S extends readonly (infer E)[]
    ? readonly Known<E, NonNullable<T> extends readonly (infer F)[] ? F : unknown>[]
    : S extends object
      ? { readonly [K in keyof S]: K extends KeysOf<NonNullable<T>> ? Known<S[K], FieldOf<NonNullable<T>, K>> : NoSuchField<K> }
      : S;

/** Additional requirements for a returned `Result`. */
export type KnownResult<X, P> =
  X extends Promise<infer Y>
    ? Promise<KnownResult<Y, P>>
    : X extends { readonly status?: infer S; readonly self?: infer F }
      ? { readonly status?: Known<S, StatusOf<P>>; readonly self?: Known<F, SelfOf<P>> }
      : unknown;

/** Plain data, performed in the order apply, self, status, events, again, remove. An absent field changes nothing. */
export type Result<P, O extends readonly unknown[]> = Writes<P, O> | Removal;
