/** `make()` at the first call and its result for all later ones: importing a function reads no environment. */
export function lazy<A extends readonly unknown[], R>(make: () => (...args: A) => R): (...args: A) => R {
  let made: ((...args: A) => R) | undefined;
  return (...args) => {
    made ??= make();
    return made(...args);
  };
}
