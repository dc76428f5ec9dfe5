const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\u0007": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
};
const TO_ESCAPE = /["\\]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu;

/** Quotes like Go's `%q`. */
export function goQuote(text: string): string {
  return `"${text.replace(TO_ESCAPE, (character) => ESCAPES[character] ?? escaped(character.codePointAt(0) ?? 0))}"`;
}

function escaped(code: number): string {
  const hex = (digits: number): string => code.toString(16).padStart(digits, "0");
  if (code < 0x20 || code === 0x7f) return `\\x${hex(2)}`;
  return code < 0x1_0000 ? `\\u${hex(4)}` : `\\U${hex(8)}`;
}
