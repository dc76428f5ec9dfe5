/**
 * Represents bytes as text without loss: a byte that is not UTF-8 becomes a lone surrogate (U+DC80 to U+DCFF), as in Python's PEP 383.
 * Well-formed text never contains one, and the API server sends none.
 */
const ESCAPE = 0xdc00;
const ESCAPED = /([\udc80-\udcff]+)/u;
const CHARACTER_BYTES = [1, 2, 3, 4];

export function textOfBytes(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString();
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const size = CHARACTER_BYTES.find((count) => at + count <= bytes.length && isUtf8(bytes.subarray(at, at + count)));
    text += size === undefined ? String.fromCharCode(ESCAPE + bytes.readUInt8(at)) : bytes.toString("utf8", at, at + size);
    at += size ?? 1;
  }
  return text;
}

function isUtf8(bytes: Buffer): boolean {
  return Buffer.from(bytes.toString()).equals(bytes);
}

export function bytesOfText(text: string): Buffer {
  // Splitting by a capturing group returns the escaped bytes at odd indexes.
  return Buffer.concat(text.split(ESCAPED).map((part, i) => Buffer.from(part, i % 2 === 1 ? "latin1" : "utf8")));
}
