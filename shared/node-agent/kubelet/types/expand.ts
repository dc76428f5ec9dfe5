/** References to environment variables in commands, arguments and values (node-agent §7.4). */

/** A dollar sign that was doubled, or a reference up to the next closing parenthesis. */
const REFERENCE = /\$(?:\$|\(([^)]*)\))/gu;

/**
 * The text with every reference replaced, from left to right and once: what a value brings in is not looked at again.
 *
 *     "$(A)-$(B)" with A=1   → "1-$(B)"     a name nobody knows stays as it is written
 *     "$$(A)"                → "$(A)"       two dollar signs are one
 *     "$(A", "$A", "100$"    → themselves
 *
 * Source: third_party/forked/golang/expansion/expand.go Expand, MappingFuncFor.
 */
export function expand(text: string, valueOf: (name: string) => string | undefined): string {
  // Behind the last parenthesis no reference can close, and each `$(` there would be looked at to the end of the text.
  const end = text.lastIndexOf(")") + 1;
  const closed = text.slice(0, end).replace(REFERENCE, (reference, name: string | undefined) => {
    if (name === undefined) return "$";
    return valueOf(name) ?? reference;
  });
  return closed + text.slice(end).replaceAll("$$", () => "$");
}
