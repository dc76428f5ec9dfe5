/** `own`, `watch` and `only`: entries of `owns`, `watches` and `reads`. */
import type { AnyKind, FieldsOf, SeenOf } from "./kind.ts";
import type { Over, See } from "./see.ts";

export interface Owned<K extends AnyKind = AnyKind, M = unknown> {
  readonly owns: K;
  readonly see: M;
  readonly prune?: boolean;
}

export interface Watched<K extends AnyKind = AnyKind, M = unknown> {
  readonly watches: K;
  readonly place?: Place;
  readonly by: Mapping;
  readonly see: M;
}

export interface Only<K extends AnyKind = AnyKind> {
  readonly only: K;
  readonly place: Place;
}

/** One namespace, or one object in it. */
export interface Place {
  readonly namespace: string;
  readonly name?: string;
}

/** Maps a watched object to primaries. Data, not code, because the applier evaluates it. */
export type Mapping =
  /** The label's value names the primary in the same namespace, or a cluster-scoped primary. */
  | { readonly label: string }
  | { readonly annotation: string }
  /** The primary with the same namespace and name. */
  | { readonly name: "same" }
  /** For the watched kind Namespace: every primary in the namespace. */
  | { readonly namespace: "own" }
  /** Every primary in the object's namespace or in the cluster, enqueued at 1,000 keys/s. */
  | { readonly all: "namespace" | "cluster" };

export type KindIn<E> =
  E extends Owned<infer K> ? K : E extends Watched<infer K> ? K : E extends Only<infer K> ? K : E extends AnyKind ? E : never;

/** Owned and watched objects show metadata and status. */
type StatusSeen<K> = Pick<SeenOf<K>, "status" & keyof SeenOf<K>>;
export type MaskIn<E> =
  E extends Owned<infer K, infer M> ? Over<StatusSeen<K>, M> : E extends Watched<infer K, infer M> ? Over<StatusSeen<K>, M> : StatusSeen<E>;

/** An owned kind with other visible fields, or one of those that are deleted only with `prune`, such as PersistentVolumeClaims. */
export function own<K extends AnyKind, const M extends See<FieldsOf<K>>>(
  kind: K,
  see: M,
  { prune }: { readonly prune?: boolean } = {},
): Owned<K, M> {
  return { owns: kind, see, ...(prune !== undefined && { prune }) };
}

/** A kind whose changes enqueue primaries. */
// An empty mask is valid for every kind.
export function watch<K extends AnyKind, const M extends See<FieldsOf<K>> = {}>(
  kind: K | Only<K>,
  { by, see }: { readonly by: Mapping; readonly see?: M },
): Watched<K, M> {
  const shown = see ?? ({} as M);
  return typeof kind === "function" ? { watches: kind, by, see: shown } : { watches: kind.only, place: kind.place, by, see: shown };
}

/** One namespace or object of a kind: permissions are granted for that alone. */
export function only<K extends AnyKind>(kind: K, place: Place): Only<K> {
  return { only: kind, place };
}
