/**
 * Text of other people's objects, made safe for a terminal: what would move the cursor, change colours, end a line or reorder
 * it is shown as an escape instead, as `\x1b`, `\n` or `\u202e`.
 */
// Controls (C0, DEL, C1), line and paragraph separators, and the marks that reorder text.
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** One line, whatever `text` holds. */
export function printable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    if (character === "\n") return "\\n";
    const code = character.charCodeAt(0).toString(16);
    return code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** JSON in one line, still JSON: JSON.stringify leaves everything above C0 as it is. */
export function printableJson(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
