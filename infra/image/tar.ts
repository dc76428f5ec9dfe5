/** Writes the part of tar (POSIX.1-1988 ustar) that an image needs: folders, files and links with short names, owned by root. */

export type TarEntry =
  | { readonly kind: "folder"; readonly name: string; readonly mode?: number }
  | { readonly kind: "file"; readonly name: string; readonly content: Uint8Array; readonly mode?: number }
  | { readonly kind: "link"; readonly name: string; readonly target: string };

const BLOCK = 512;
const NAME_MAX = 100;

/** Returns the same bytes for the same entries: times, user ids and group ids are 0. */
export function tar(entries: readonly TarEntry[]): Buffer {
  const blocks = entries.flatMap((entry) => {
    const content = entry.kind === "file" ? entry.content : new Uint8Array();
    return [header(entry, content.length), content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]);
}

function header(entry: TarEntry, size: number): Buffer {
  const name = entry.kind === "folder" ? `${entry.name}/` : entry.name;
  if (Buffer.byteLength(name) > NAME_MAX) throw new RangeError(`name longer than ${NAME_MAX} bytes: ${name}`);
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, width: number): void => {
    block.write(`${value.toString(8).padStart(width - 1, "0")}\0`, at, "latin1");
  };
  block.write(name, 0);
  octal(modeOf(entry), 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.write(" ".repeat(8), 148, "latin1"); // the checksum is computed with spaces in the checksum field
  block.write({ file: "0", link: "2", folder: "5" }[entry.kind], 156, "latin1");
  if (entry.kind === "link") block.write(entry.target, 157);
  block.write("ustar\x0000", 257, "latin1");
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

function modeOf(entry: TarEntry): number {
  if (entry.kind === "link") return 0o777;
  return entry.mode ?? (entry.kind === "folder" ? 0o755 : 0o644);
}
