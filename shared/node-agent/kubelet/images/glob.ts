/**
 * Matches `text` against `glob`: `*` matches any characters, `?` one character. Takes linear time, because tenants write these patterns
 * and backtracking over stars would take exponential time. Source: Go's path/filepath.Match, without character classes.
 */
export function globMatches(glob: string, text: string): boolean {
  const [first = "", ...others] = glob.split("*");
  const last = others.pop();
  if (last === undefined) return first.length === text.length && matchesAt(first, text, 0);
  const end = text.length - last.length;
  let from = first.length;
  if (from > end || !matchesAt(first, text, 0) || !matchesAt(last, text, end)) return false;
  for (const piece of others) {
    while (from + piece.length <= end && !matchesAt(piece, text, from)) from++;
    from += piece.length;
    if (from > end) return false;
  }
  return true;
}

/** Whether `piece` matches at index `at`. The caller ensures that `text` is long enough. */
function matchesAt(piece: string, text: string, at: number): boolean {
  for (let index = 0; index < piece.length; index++) if (piece[index] !== "?" && piece[index] !== text[at + index]) return false;
  return true;
}
