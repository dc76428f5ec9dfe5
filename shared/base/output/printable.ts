/**
 * Text of other people's objects, made safe for a terminal: what would move the cursor, change colours, end a line or reorder
 * it is shown as an escape instead, as `\x1b`, `\n` or `\u202e`.
 */
// Controls (C0, DEL, C1), line and paragraph separators, what formats and is not seen itself (marks that reorder text, joiners, spaces of no
// width, tags), and halves of characters.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** One line, whatever `text` holds. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    if (character === "\n") return "\\n";
    const code = (character.codePointAt(0) ?? 0).toString(16);
    if (code.length > 4) return `\\u{${code}}`;
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** JSON in one line, still JSON: JSON.stringify leaves everything above C0 as it is. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE, (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`).join(""),
  );
}
