/**
 * Replaces all files of a volume atomically (NF2). Containers open the files through `..data`, and one rename switches that link to the
 * new files:
 *
 *     volume/..2026_03_01_10_00_00.1f0c22/user/labels     the files
 *     volume/..data   → ..2026_03_01_10_00_00.1f0c22
 *     volume/user     → ..data/user
 *
 * After a crash at any point, the volume has either the old or the new files; the next call cleans up.
 *
 * Source: pkg/volume/util/atomic_writer.go.
 */
import { randomBytes } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Dirent } from "node:fs";
import { chmod, chown, lstat, mkdir, readdir, readFile, readlink, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join, posix } from "node:path";
import type { VolumeFile } from "../ports/node-files.ts";
import { NodeFilesError } from "../ports/node-files.ts";
import { ifExists, ifExistsSync } from "./errors.ts";

const DATA = "..data";
const NEW_DATA = "..data_tmp";
const VERSION = /^\.\.\d{4}(?:_\d\d){5}\.[0-9a-f]+$/u;
/** Mode that lets every user enter the directory, whatever the umask of the agent. */
const DIRECTORY_MODE = 0o755;
const PATH_BYTES_MAX = 4096;
const NAME_BYTES_MAX = 255;

/** @param setPermissions called with each new directory before its files become visible */
export async function writePayload(
  volume: string,
  payload: readonly VolumeFile[],
  setPermissions: (directory: string) => Promise<void>,
): Promise<void> {
  const files = payload.map((file) => ({ ...file, path: checkedPath(file.path) }));
  const reader = files.length <= SYNC_FILES_MAX ? SYNC_READER : ASYNC_READER;
  const current = await reader.link(join(volume, DATA));
  if (current === undefined || !(await isUnchanged(join(volume, current), files, reader))) {
    const version = versionName();
    await writeVersion(join(volume, version), files);
    await setPermissions(join(volume, version));
    await rm(join(volume, NEW_DATA), { force: true });
    await symlink(version, join(volume, NEW_DATA));
    await rename(join(volume, NEW_DATA), join(volume, DATA));
  }
  await linkFiles(volume, new Set(files.map(({ path }) => path.split("/")[0] ?? path)), reader);
  await removeOldVersions(volume);
}

/** Reads a volume. A link that is missing, or a file that is not a link, is `undefined`; a missing directory has no entries. */
interface VolumeReader {
  read(path: string): Promise<Buffer>;
  link(path: string): Promise<string | undefined>;
  exists(path: string): Promise<boolean>;
  names(directory: string): Promise<readonly string[]>;
  entriesBelow(directory: string): Promise<readonly Dirent[]>;
}

/**
 * Every sync iteration checks the volume. Up to this number of files, synchronous reads are cheaper than reads in libuv's threads. With
 * 60,000 files, synchronous reads would block the event loop.
 */
const SYNC_FILES_MAX = 100;
const BELOW = { recursive: true, withFileTypes: true } as const;
const SYNC_READER: VolumeReader = {
  read: async (path) => readFileSync(path),
  link: async (path) => (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? readlinkSync(path) : undefined),
  exists: async (path) => lstatSync(path, { throwIfNoEntry: false }) !== undefined,
  names: async (directory) => readdirSync(directory),
  entriesBelow: async (directory) => ifExistsSync(() => readdirSync(directory, BELOW)) ?? [],
};
const ASYNC_READER: VolumeReader = {
  read: (path) => readFile(path),
  link: async (path) => ((await ifExists(lstat(path)))?.isSymbolicLink() === true ? await readlink(path) : undefined),
  exists: async (path) => (await ifExists(lstat(path))) !== undefined,
  names: (directory) => readdir(directory),
  entriesBelow: async (directory) => (await ifExists(readdir(directory, BELOW))) ?? [],
};

/** @throws {NodeFilesError} for a path outside the volume, or with a name that the writer uses itself (`..`) */
function checkedPath(path: string): string {
  const clean = posix.normalize(path).replace(/\/$/u, "");
  const names = path.split("/");
  const isSafe =
    path !== "" && clean !== "." && !path.startsWith("..") && !posix.isAbsolute(path) && !names.includes("..") && !path.includes("\0");
  const isShort = Buffer.byteLength(path) <= PATH_BYTES_MAX && names.every((name) => Buffer.byteLength(name) <= NAME_BYTES_MAX);
  if (!isSafe || !isShort)
    throw new NodeFilesError(`invalid path in a volume: "${path}": use a relative path without "..", at most ${PATH_BYTES_MAX} bytes long`);
  return clean;
}

/** Compares names and contents only, because modes never change during the lifetime of a pod. */
async function isUnchanged(version: string, files: readonly VolumeFile[], reader: VolumeReader): Promise<boolean> {
  const existing = new Set(await filesBelow(version, reader));
  if (existing.size !== new Set(files.map(({ path }) => path)).size) return false;
  for (const { path, content } of files) if (!existing.has(path) || !(await reader.read(join(version, path))).equals(content)) return false;
  return true;
}

/** Returns the paths of all files, relative to `directory`. */
async function filesBelow(directory: string, reader: VolumeReader): Promise<readonly string[]> {
  const entries = await reader.entriesBelow(directory);
  return entries.filter((entry) => !entry.isDirectory()).map((entry) => posix.relative(directory, join(entry.parentPath, entry.name)));
}

async function writeVersion(directory: string, files: readonly VolumeFile[]): Promise<void> {
  await makeDirectory(directory);
  for (const { path, content, mode, uid } of files) {
    const target = join(directory, path);
    for (let depth = path.indexOf("/"); depth > 0; depth = path.indexOf("/", depth + 1))
      await makeDirectory(join(directory, path.slice(0, depth)));
    await writeFile(target, content, { mode: 0o600, flag: "wx" });
    if (uid !== undefined) await chown(target, uid, -1);
    await chmod(target, mode);
  }
}

async function makeDirectory(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  await chmod(directory, DIRECTORY_MODE);
}

/** Links the files of the payload, and removes links of former files. Files from other writers are kept. */
async function linkFiles(volume: string, names: ReadonlySet<string>, reader: VolumeReader): Promise<void> {
  for (const name of names) {
    const link = join(volume, name);
    if (!(await reader.exists(link))) await symlink(`${DATA}/${name}`, link);
  }
  for (const name of await reader.names(volume)) {
    if (names.has(name) || name.startsWith("..")) continue;
    const target = await reader.link(join(volume, name));
    if (target === `${DATA}/${name}`) await rm(join(volume, name), { force: true });
  }
}

async function removeOldVersions(volume: string): Promise<void> {
  const current = readlinkSync(join(volume, DATA));
  const old = readdirSync(volume).filter((name) => VERSION.test(name) && name !== current);
  for (const name of old) await rm(join(volume, name), { recursive: true, force: true });
}

/** Returns a UTC time in seconds with a random suffix, so that two writes within a second have different names. */
function versionName(): string {
  const time = new Date().toISOString().slice(0, 19).replaceAll(/[-T:]/gu, "_");
  return `..${time}.${randomBytes(4).toString("hex")}`;
}
