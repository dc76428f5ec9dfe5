/** Matches `$$`, or a reference up to the next closing parenthesis. */
const REFERENCE = /\$(?:\$|\(([^)]*)\))/gu;

/**
 * Expands `$(NAME)` references once, from left to right (node-agent §7.4).
 *
 *     "$(A)-$(B)" with A=1   → "1-$(B)"     unknown names stay
 *     "$$(A)"                → "$(A)"       escaped
 *     "$(A", "$A", "100$"    → unchanged
 *
 * Source: third_party/forked/golang/expansion/expand.go Expand, MappingFuncFor.
 */
export function expand(text: string, valueOf: (name: string) => string | undefined): string {
  // No reference can end after the last closing parenthesis, and searching there would take quadratic time.
  const end = text.lastIndexOf(")") + 1;
  const closed = text.slice(0, end).replace(REFERENCE, (reference, name: string | undefined) => {
    if (name === undefined) return "$";
    return valueOf(name) ?? reference;
  });
  return closed + text.slice(end).replaceAll("$$", () => "$");
}
