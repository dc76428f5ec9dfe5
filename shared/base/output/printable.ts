/**
 * Text from outside, made safe for a terminal. Characters that move the cursor, change colours, end a line or reorder it are shown as
 * escapes, such as `\x1b`, `\n` or `\u202e`.
 */
// Control characters (C0, DEL, C1), line and paragraph separators, invisible format characters (bidirectional marks, joiners, zero-width
// spaces, tags), and lone surrogates.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** Returns a single line, regardless of the content of `text`. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    if (character === "\n") return "\\n";
    const code = (character.codePointAt(0) ?? 0).toString(16);
    if (code.length > 4) return `\\u{${code}}`;
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** JSON in one line with the same escapes; JSON.stringify escapes C0 only. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE, (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}
