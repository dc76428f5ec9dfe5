/** Objects that a test writes in full; a sync gets only the fields that its views show. */
import type { AnyKind, Applied, ControllerTypes, Result } from "@deltaloop/sdk";
import type { FieldsOf, KindIn, NameOf, Wanted } from "@deltaloop/sdk/definitions";

/** The metadata of a given object. Fields that are left out have plausible values. */
export interface GivenMeta {
  readonly name: string;
  /** Default: `default`, or that of the primary. */
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly object[];
}

/** An object of any kind. */
export interface GivenObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: GivenMeta;
  readonly [field: string]: unknown;
}

type Typed<K> = { readonly metadata: GivenMeta } & Wanted<FieldsOf<K>>;
/** An object that was created by calling the kind, or a plain one with apiVersion and kind. */
type OneOf<K> = K extends AnyKind ? Applied<NameOf<K>> | ({ readonly apiVersion: string; readonly kind: NameOf<K> } & Typed<K>) : never;
type Kinds<L> = L extends readonly unknown[] ? KindIn<L[number]> : never;

/** The input of `decide`, typed by the controller's definition. */
export interface Given<T> {
  /** The primary. Defaults of a custom resource's schema are filled in. */
  readonly object: T extends ControllerTypes<infer P> ? Applied<NameOf<P>> | Typed<P> : GivenObject;
  /** Objects that the primary owns. A controller reference is filled in. */
  readonly owned?: readonly (T extends ControllerTypes<unknown, infer O> ? OneOf<Kinds<O>> : GivenObject)[];
  /** Watched objects that are mapped to the primary. */
  readonly watched?: readonly (T extends ControllerTypes<unknown, unknown, infer W> ? OneOf<Kinds<W>> : GivenObject)[];
  /** Objects that `live` finds, besides those above. */
  readonly live?: readonly (T extends ControllerTypes<unknown, unknown, unknown, infer R> ? OneOf<Kinds<R>> : GivenObject)[];
  /** Default: 2026-01-01T00:00:00Z. */
  readonly now?: Date;
}

/** The result of the controller's `sync`. */
export type Decision<T> =
  T extends ControllerTypes<infer P, infer O> ? Result<P, O extends readonly unknown[] ? O : readonly []> | undefined : unknown;
