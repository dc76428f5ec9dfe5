/** Returns `target` with calls of the methods `names` counted. */
export function counting<T extends object>(target: T, names: readonly (keyof T)[], count: () => void): T {
  const counted = Object.fromEntries(
    names.map((name) => {
      const method = target[name] as (...args: readonly unknown[]) => unknown; // the interface has only methods
      return [
        name,
        (...args: readonly unknown[]) => {
          count();
          return method.apply(target, [...args]);
        },
      ];
    }),
  );
  return { ...target, ...counted };
}
