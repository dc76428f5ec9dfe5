/**
 * An open directory whose entries are accessed by its descriptor and one name. No path is too long, and a renamed parent or
 * an inserted link cannot redirect the agent. Names are bytes (as latin1), because a container may choose invalid UTF-8.
 */
import { close, constants, fstat, open } from "node:fs";
import type { Dirent, Stats } from "node:fs";
import { opendir, readdir, readlink } from "node:fs/promises";
import { promisify } from "node:util";
import { errorCode } from "./errors.ts";

/** From linux/fcntl.h; Node does not name it. An open place in the tree that can be walked and bound, not read. */
const O_PATH = 0o10000000;
/** Opens any file type, also a link, and never blocks, as opening a FIFO would. */
export const ITSELF = O_PATH | constants.O_NOFOLLOW;
/** A list of a directory of at most this size is read as one; file systems tell bytes or entries. */
const READ_AT_ONCE_MAX = 32 * 1024;
/** Of entries of a larger one: they stand in memory, and the loop does not turn meanwhile. */
const ENTRIES_AT_ONCE = 128;
/** Node takes it also for `opendir`; its types do not know. Where a file system keeps no types of entries, Node looks by these names. */
const BYTES = "buffer" as BufferEncoding;

/** Descriptors: a FileHandle for each directory of a great tree costs more than the directory. */
const openFile = promisify(open);
const statOpen = promisify(fstat);
const closeFile = promisify(close);

export interface Entry {
  readonly name: string;
  /** As it was when it was read. */
  readonly isDirectory: boolean;
}

/** As it was when it was opened. Who opens it closes it. */
export interface OpenPlace {
  readonly fd: number;
  readonly stats: Stats;
}

/** Not through a link: that is ENOTDIR. */
export async function openDirectory(path: string | Buffer): Promise<OpenPlace> {
  return await openItself(path, constants.O_DIRECTORY);
}

/** Whatever it is, a link too. */
export async function openItself(path: string | Buffer, flags = 0): Promise<OpenPlace> {
  const fd = await openFile(path, ITSELF | flags);
  try {
    return { fd, stats: await statOpen(fd) };
  } catch (error) {
    await closeFile(fd);
    throw error;
  }
}

/** What is called `name` in an open directory; without a name the directory itself. */
export function placeIn({ fd }: { readonly fd: number }, name?: string): Buffer {
  return Buffer.from(`/proc/self/fd/${fd}${name === undefined ? "" : `/${name}`}`, "latin1");
}

/** In the order in which the file system has them; of a large one a few at a time, for there may be millions. */
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

/** Where it is now, for people; undefined where that is longer than a path may be. */
export async function pathOf(directory: { readonly fd: number }): Promise<string | undefined> {
  return await readlink(placeIn(directory)).catch((error: unknown) => {
    if (errorCode(error) === "ENAMETOOLONG") return undefined;
    throw error;
  });
}
