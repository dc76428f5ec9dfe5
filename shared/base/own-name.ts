declare const own: unique symbol;

/** A name that a registry adds to the built-in names, such as a user controller's. */
export type OwnName = string & { readonly [own]: true };
