/** Types of visible fields. A mask lists the fields of a kind that a controller's view contains. */

/** `true`: visible as it is. `"digest"`: visible as a keyed digest. Absent: not visible, so reading it is a type error. */
export type See<T> = true | "digest" | { readonly [K in keyof T]?: See<NonNullable<T[K]>> };

declare const digest: unique symbol;
/** A keyed digest in place of a value: only equality has a meaning. */
export type Digest = string & { readonly [digest]: true };

/** `T` without the fields that the mask `M` does not name. */
export type Shown<T, M> = M extends true
  ? T
  : M extends "digest"
    ? Digest
    : { readonly [K in keyof M & keyof T]: undefined extends T[K] ? Shown<NonNullable<T[K]>, M[K]> | undefined : Shown<T[K], M[K]> };

/** The mask `M` over the default mask `D`: a field that `M` names replaces the default of that field. */
export type Over<D, M> = M extends true | "digest" ? M : Omit<D, keyof M> & M;

/** A mask as plain data. */
export type Mask = true | "digest" | { readonly [field: string]: Mask };
