declare const own: unique symbol;

/** A name that a registry adds to the built-in names, such as an additional controller's. */
export type OwnName = string & { readonly [own]: true };
