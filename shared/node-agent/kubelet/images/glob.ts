/** Patterns for registries, as administrators and, in pull secrets, tenants write them. */

/**
 * Whether `glob` stands for `text`: `*` for any characters, `?` for one. Piece after piece, each as early as it comes: a pattern that goes
 * back over stars never ends with ten of them.
 *
 * Source: Go's path/filepath.Match, but for its classes of characters.
 */
export function globMatches(glob: string, text: string): boolean {
  const [first = "", ...others] = glob.split("*");
  const last = others.pop();
  if (last === undefined) return first.length === text.length && standsAt(first, text, 0);
  const end = text.length - last.length;
  let from = first.length;
  if (from > end || !standsAt(first, text, 0) || !standsAt(last, text, end)) return false;
  for (const piece of others) {
    while (from + piece.length <= end && !standsAt(piece, text, from)) from++;
    from += piece.length;
    if (from > end) return false;
  }
  return true;
}

/** `at` leaves room for `piece`. */
function standsAt(piece: string, text: string, at: number): boolean {
  for (let index = 0; index < piece.length; index++) if (piece[index] !== "?" && piece[index] !== text[at + index]) return false;
  return true;
}
