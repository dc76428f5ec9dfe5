/**
 * Writes deterministic zip files: fixed time, given order, one compression level.
 *
 * Source: PKWARE APPNOTE 6.3, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.16 (its end).
 */
import { crc32, deflateRawSync } from "node:zlib";

export interface ZipEntry {
  readonly name: string;
  readonly content: Buffer;
}

/** 1980-01-01 00:00, the earliest time of the format. */
const DOS_TIME = 0;
const DOS_DATE = 0x21;
const VERSION = 20;
const MADE_ON_UNIX = (3 << 8) | VERSION;
const DEFLATED = 8;
/** Flag for names in UTF-8. */
const FLAGS = 0x0800;
/** A regular file that all users may read, since Lambda does not run as its owner. */
const MODE = 0o100644;

export function zip(entries: readonly ZipEntry[]): Buffer {
  const chunks: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const { name, content } of entries) {
    const nameBytes = Buffer.from(name);
    const compressed = deflateRawSync(content, { level: 9 });
    const common = Buffer.alloc(26);
    common.writeUInt16LE(VERSION, 0);
    common.writeUInt16LE(FLAGS, 2);
    common.writeUInt16LE(DEFLATED, 4);
    common.writeUInt16LE(DOS_TIME, 6);
    common.writeUInt16LE(DOS_DATE, 8);
    common.writeUInt32LE(crc32(content), 10);
    common.writeUInt32LE(compressed.length, 14);
    common.writeUInt32LE(content.length, 18);
    common.writeUInt16LE(nameBytes.length, 22);
    chunks.push(Buffer.from("PK\x03\x04", "latin1"), common, nameBytes, compressed);

    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(MODE * 0x10000, 6);
    rest.writeUInt32LE(offset, 10);
    directory.push(Buffer.from("PK\x01\x02", "latin1"), uint16(MADE_ON_UNIX), common, rest, nameBytes);
    offset += 4 + common.length + nameBytes.length + compressed.length;
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(size, 8);
  end.writeUInt32LE(offset, 12);
  return Buffer.concat([...chunks, ...directory, Buffer.from("PK\x05\x06", "latin1"), end]);
}

function uint16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}
