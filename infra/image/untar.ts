/**
 * Reads the tar features that Debian and npm packages use: folders, files, links, and names longer than a header holds.
 * Source: POSIX.1-1988 ustar; GNU tar, "Basic Tar Format" (type L); POSIX.1-2001 pax (type x, `path` and `linkpath`).
 */
import type { TarEntry } from "./tar.ts";

const BLOCK = 512;

/** Returns the entries in order, without a leading `./` and without the root folder. @throws {Error} for other types and truncated archives */
export function untar(archive: Buffer): readonly TarEntry[] {
  const entries: TarEntry[] = [];
  let longName: string | undefined;
  let longTarget: string | undefined;
  for (let at = 0; at + BLOCK <= archive.length;) {
    const header = archive.subarray(at, at + BLOCK);
    if (header[0] === 0) return entries;
    const size = octal(header, 124, 12);
    const content = archive.subarray(at + BLOCK, at + BLOCK + size);
    if (content.length < size) break;
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;

    const type = text(header, 156, 1);
    if (type === "g") continue; // global pax header
    if (type === "L") longName = text(content, 0, size);
    else if (type === "K") longTarget = text(content, 0, size);
    else if (type === "x") {
      longName = paxValue(content, "path") ?? longName;
      longTarget = paxValue(content, "linkpath") ?? longTarget;
    } else {
      const prefix = text(header, 257, 6) === "ustar" ? text(header, 345, 155) : "";
      const ownName = text(header, 0, 100);
      const name = trimmed(longName ?? (prefix === "" ? ownName : `${prefix}/${ownName}`));
      const target = longTarget ?? text(header, 157, 100);
      longName = longTarget = undefined;
      if (name !== "") entries.push(entryOf(type, name, octal(header, 100, 8), content, target));
    }
  }
  throw new Error("truncated tar archive");
}

function entryOf(type: string, name: string, mode: number, content: Buffer, target: string): TarEntry {
  switch (type) {
    case "0":
    case "":
      return { kind: "file", name, content, mode };
    case "2":
      return { kind: "link", name, target };
    case "5":
      return { kind: "folder", name, mode };
    default:
      throw new Error(`${name} has the unsupported type ${type}`);
  }
}

/** Finds `keyword` in records such as `27 path=usr/share/doc/…\n`. */
function paxValue(content: Buffer, keyword: string): string | undefined {
  return new RegExp(`(?:^|\\n)\\d+ ${keyword}=([^\\n]*)\\n`).exec(content.toString("utf8"))?.[1];
}

function trimmed(name: string): string {
  return name.replace(/^(?:\.?\/)+|^\.$/, "").replace(/\/$/, "");
}

function octal(block: Buffer, at: number, width: number): number {
  return Number.parseInt(text(block, at, width).trim() || "0", 8);
}

function text(block: Buffer, at: number, width: number): string {
  const field = block.subarray(at, at + width);
  const end = field.indexOf(0);
  return field.subarray(0, end === -1 ? width : end).toString("utf8");
}
