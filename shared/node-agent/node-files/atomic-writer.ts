/**
 * All files of a volume changed at once (NF2). What a container opens are links through `..data`, and one rename turns them all:
 *
 *     volume/..2026_03_01_10_00_00.1f0c22/user/labels     the files
 *     volume/..data   → ..2026_03_01_10_00_00.1f0c22
 *     volume/user     → ..data/user
 *
 * A crash at any point leaves the old payload or the new one; the next call tidies up what is left. Each turn of a pod looks whether
 * all is as it should be; a few small files, which only this agent writes, are read at once, and not by threads.
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
import { ifThere, ifThereNow } from "./errors.ts";

const DATA = "..data";
const NEW_DATA = "..data_tmp";
const VERSION = /^\.\.\d{4}(?:_\d\d){5}\.[0-9a-f]+$/u;
/** Every user must be able to walk it, whatever the umask of the agent. */
const DIRECTORY_MODE = 0o755;
const PATH_BYTES_MAX = 4096;
const NAME_BYTES_MAX = 255;

/** @param setPermissions is given each directory that was written before anybody sees its files */
export async function writePayload(
  volume: string,
  payload: readonly VolumeFile[],
  setPermissions: (directory: string) => Promise<void>,
): Promise<void> {
  const files = payload.map((file) => ({ ...file, path: checkedPath(file.path) }));
  const look = files.length <= FEW ? AT_ONCE : BY_THREADS;
  const current = await look.link(join(volume, DATA));
  if (current === undefined || !(await isUnchanged(join(volume, current), files, look))) {
    const version = versionName();
    await writeVersion(join(volume, version), files);
    await setPermissions(join(volume, version));
    await rm(join(volume, NEW_DATA), { force: true });
    await symlink(version, join(volume, NEW_DATA));
    await rename(join(volume, NEW_DATA), join(volume, DATA));
  }
  await showFiles(volume, new Set(files.map(({ path }) => path.split("/")[0] ?? path)), look);
  await removeOldVersions(volume);
}

/** How a volume is looked at. Links that are not there, and what is no link, are undefined; whatever else is not there is empty. */
interface Look {
  read(path: string): Promise<Buffer>;
  link(path: string): Promise<string | undefined>;
  isThere(path: string): Promise<boolean>;
  names(directory: string): Promise<readonly string[]>;
  entriesBelow(directory: string): Promise<readonly Dirent[]>;
}

/** A thread for each of a few files costs more than they do; a ConfigMap may have 60,000, which are no reason to look at nothing else meanwhile. */
const FEW = 100;
const BELOW = { recursive: true, withFileTypes: true } as const;
const AT_ONCE: Look = {
  read: async (path) => readFileSync(path),
  link: async (path) => (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? readlinkSync(path) : undefined),
  isThere: async (path) => lstatSync(path, { throwIfNoEntry: false }) !== undefined,
  names: async (directory) => readdirSync(directory),
  entriesBelow: async (directory) => ifThereNow(() => readdirSync(directory, BELOW)) ?? [],
};
const BY_THREADS: Look = {
  read: (path) => readFile(path),
  link: async (path) => ((await ifThere(lstat(path)))?.isSymbolicLink() === true ? await readlink(path) : undefined),
  isThere: async (path) => (await ifThere(lstat(path))) !== undefined,
  names: (directory) => readdir(directory),
  entriesBelow: async (directory) => (await ifThere(readdir(directory, BELOW))) ?? [],
};

/** @throws {NodeFilesError} for a path that leads out of the volume, or into what the writer keeps for itself */
function checkedPath(path: string): string {
  const clean = posix.normalize(path).replace(/\/$/u, "");
  const names = path.split("/");
  const isSafe =
    path !== "" && clean !== "." && !path.startsWith("..") && !posix.isAbsolute(path) && !names.includes("..") && !path.includes("\0");
  const isShort = Buffer.byteLength(path) <= PATH_BYTES_MAX && names.every((name) => Buffer.byteLength(name) <= NAME_BYTES_MAX);
  if (!isSafe || !isShort)
    throw new NodeFilesError(`invalid path in a volume: "${path}": it must be relative, without ".." and not too long`);
  return clean;
}

/** Same files with the same content; modes never change while a pod lives. */
async function isUnchanged(version: string, files: readonly VolumeFile[], look: Look): Promise<boolean> {
  const existing = new Set(await filesBelow(version, look));
  if (existing.size !== new Set(files.map(({ path }) => path)).size) return false;
  for (const { path, content } of files) if (!existing.has(path) || !(await look.read(join(version, path))).equals(content)) return false;
  return true;
}

/** Relative paths. */
async function filesBelow(directory: string, look: Look): Promise<readonly string[]> {
  const entries = await look.entriesBelow(directory);
  return entries.filter((entry) => !entry.isDirectory()).map((entry) => posix.relative(directory, join(entry.parentPath, entry.name)));
}

async function writeVersion(directory: string, files: readonly VolumeFile[]): Promise<void> {
  await makeOpen(directory);
  for (const { path, content, mode, uid } of files) {
    const target = join(directory, path);
    for (let depth = path.indexOf("/"); depth > 0; depth = path.indexOf("/", depth + 1))
      await makeOpen(join(directory, path.slice(0, depth)));
    await writeFile(target, content, { mode: 0o600, flag: "wx" });
    if (uid !== undefined) await chown(target, uid, -1);
    await chmod(target, mode);
  }
}

async function makeOpen(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  await chmod(directory, DIRECTORY_MODE);
}

/** Links to what is in the payload, and to nothing else of it. What a user put beside them stays. */
async function showFiles(volume: string, names: ReadonlySet<string>, look: Look): Promise<void> {
  for (const name of names) {
    const link = join(volume, name);
    if (!(await look.isThere(link))) await symlink(`${DATA}/${name}`, link);
  }
  for (const name of await look.names(volume)) {
    if (names.has(name) || name.startsWith("..")) continue;
    const target = await look.link(join(volume, name));
    if (target === `${DATA}/${name}`) await rm(join(volume, name), { force: true });
  }
}

async function removeOldVersions(volume: string): Promise<void> {
  const current = readlinkSync(join(volume, DATA));
  const old = readdirSync(volume).filter((name) => VERSION.test(name) && name !== current);
  for (const name of old) await rm(join(volume, name), { recursive: true, force: true });
}

/** UTC, to the second, and something random: two writes in one second differ. */
function versionName(): string {
  const time = new Date().toISOString().slice(0, 19).replaceAll(/[-T:]/gu, "_");
  return `..${time}.${randomBytes(4).toString("hex")}`;
}
