/**
 * An open directory, whose entries are accessed through its descriptor and a single name. Therefore, no path is too long, and a renamed
 * parent or an inserted link cannot redirect the agent. Names are bytes, decoded as latin1, because a container may choose names that are
 * not UTF-8.
 */
import { close, constants, fstat, open } from "node:fs";
import type { Dirent, Stats } from "node:fs";
import { opendir, readdir, readlink } from "node:fs/promises";
import { promisify } from "node:util";
import { errorCode } from "./errors.ts";

/** Opens a descriptor for path operations, without read access. The value is from linux/fcntl.h, because Node.js does not define it. */
const O_PATH = 0o10000000;
/** Opens a file of any type, including a link itself, and never blocks, as opening a FIFO would. */
export const ITSELF = O_PATH | constants.O_NOFOLLOW;
/** A directory with an `st_size` up to this value is read in one call. File systems report this size in bytes or in entries. */
const READ_AT_ONCE_MAX = 32 * 1024;
/** Number of entries per read of a larger directory, which bounds the memory, and the time for which the event loop is blocked. */
const ENTRIES_AT_ONCE = 128;
/**
 * `opendir` accepts this encoding, although its types do not. Node uses these names to look up the type of an entry if the file system
 * does not report it.
 */
const BYTES = "buffer" as BufferEncoding;

/** Uses raw descriptors, because opening a FileHandle per directory costs more than reading the directory. */
const openFile = promisify(open);
const statOpen = promisify(fstat);
const closeFile = promisify(close);

export interface Entry {
  readonly name: string;
  /** The type of the entry when it was read. */
  readonly isDirectory: boolean;
}

/** An open file with its stats at the time of opening. The caller must close it. */
export interface OpenPlace {
  readonly fd: number;
  readonly stats: Stats;
}

/** Opens a directory. Fails with ENOTDIR for a link. */
export async function openDirectory(path: string | Buffer): Promise<OpenPlace> {
  return await openItself(path, constants.O_DIRECTORY);
}

/** Opens a file of any type. Opens a link itself, not its target. */
export async function openItself(path: string | Buffer, flags = 0): Promise<OpenPlace> {
  const fd = await openFile(path, ITSELF | flags);
  try {
    return { fd, stats: await statOpen(fd) };
  } catch (error) {
    await closeFile(fd);
    throw error;
  }
}

/** Returns the path of `name` in an open directory, or of the directory itself. */
export function placeIn({ fd }: { readonly fd: number }, name?: string): Buffer {
  return Buffer.from(`/proc/self/fd/${fd}${name === undefined ? "" : `/${name}`}`, "latin1");
}

/** Yields entries in file system order; reads large directories in batches. */
export async function* entriesOf({ fd, stats }: OpenPlace): AsyncGenerator<Entry> {
  const path = `/proc/self/fd/${fd}`;
  if (stats.size <= READ_AT_ONCE_MAX)
    for (const entry of await readdir(path, { encoding: "buffer", withFileTypes: true })) yield asEntry(entry);
  else for await (const entry of await opendir(path, { encoding: BYTES, bufferSize: ENTRIES_AT_ONCE })) yield asEntry(entry);
}

function asEntry(entry: Dirent | Dirent<Buffer>): Entry {
  const name = typeof entry.name === "string" ? entry.name : entry.name.toString("latin1");
  return { name, isDirectory: entry.isDirectory() };
}

/** Returns the current path of the directory, for messages; undefined if it is longer than PATH_MAX. */
export async function pathOf(directory: { readonly fd: number }): Promise<string | undefined> {
  return await readlink(placeIn(directory)).catch((error: unknown) => {
    if (errorCode(error) === "ENAMETOOLONG") return undefined;
    throw error;
  });
}
