/**
 * A subPath of a volume, such that what a container put into the volume cannot lead the agent out of it (node-agent §7.5).
 *
 * SP1 links are followed only to places inside the volume (`key → ..data/key` is one such).
 * SP2 directories are made, and the result is opened, from the volume downwards, each step by the open directory above it and never
 *    through a link: no attacker can insert one in between.
 * SP3 the runtime is given a bind mount of what was opened, below the pod's own directory, where no container can write. So a path
 *    that is exchanged after the check is not mounted. Only where the machine allows no mounts is it the path itself.
 *
 * Source: pkg/volume/util/subpath/subpath_linux.go SafeMakeDir, PrepareSafeSubpath (CVE-2017-1002101, CVE-2021-25741).
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, open, realpath, rmdir, stat, unlink, writeFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join, posix, relative } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifThere } from "./errors.ts";
import { bindMount, unmountWithin } from "./mounts.ts";
import { ITSELF } from "./open-directory.ts";
import { PRIVATE_MODE, isWithin } from "./paths.ts";

/** Permissions, and set-uid, set-gid and sticky. */
const MODE_BITS = 0o7777;
const FILE_TARGET_MODE = 0o640;
/** Of a bind target: hexadecimal digits of a digest. */
const NAME_LENGTH = 16;

/**
 * @param targets where bind mounts are made, also of what is below a hostPath: other pods can write there
 * @param onRefused called when the machine allows no mounts
 * @returns the path to mount
 */
export async function makeSubPath(
  volumePath: string,
  subPath: string,
  { targets, onRefused }: { readonly targets: string; readonly onRefused: () => void },
): Promise<string> {
  if (posix.isAbsolute(subPath) || subPath.split("/").includes("..") || subPath.includes("\0"))
    throw new NodeFilesError(`subPath "${subPath}" must be relative and without ".."`);
  const base = await realpath(volumePath);
  const path = await ensureDirectories(base, join(base, subPath));
  const handle = await openWithin(base, path);
  try {
    const target = join(targets, createHash("sha256").update(join(volumePath, subPath)).digest("hex").slice(0, NAME_LENGTH));
    if (await bind(handle, target)) return target;
    onRefused();
    return path;
  } finally {
    await handle.close();
  }
}

/** The real path of `wanted`; what is missing of it is made. */
async function ensureDirectories(base: string, wanted: string): Promise<string> {
  const missing: string[] = [];
  let existing = wanted;
  while (existing !== base && (await ifThere(lstat(existing))) === undefined) {
    missing.unshift(posix.basename(existing));
    existing = dirname(existing);
  }
  const real = await ifThere(realpath(existing));
  if (real === undefined) throw new NodeFilesError(`${existing} is a link that leads nowhere: remove it from the volume`);
  if (!isWithin(base, real)) throw new NodeFilesError(`${existing} leads out of its volume: remove the link`);
  if (missing.length > 0) await makeBelow(base, real, missing);
  return join(real, ...missing);
}

async function makeBelow(base: string, parent: string, names: readonly string[]): Promise<void> {
  const { mode } = await stat(base);
  let handle = await openWithin(base, parent);
  try {
    for (const name of names) {
      await makeOne(place(handle, name), mode);
      const next = await open(place(handle, name), ITSELF | constants.O_DIRECTORY);
      await handle.close();
      handle = next;
    }
  } finally {
    await handle.close();
  }
}

/** As open as the volume whatever the umask, and with its special bits: a group that is inherited stays inherited, a sticky /tmp sticky. */
async function makeOne(path: string, volumeMode: number): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (errorCode(error) === "EEXIST") return; // created concurrently; the next step opens it if it is a directory
    throw error;
  }
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    await handle.chmod(volumeMode & MODE_BITS);
  } finally {
    await handle.close();
  }
}

/** @throws {NodeFilesError} when a link stands anywhere between `base` and `path`, which has none when it was looked up */
async function openWithin(base: string, path: string): Promise<FileHandle> {
  let handle = await open(base, ITSELF | constants.O_DIRECTORY);
  for (const name of relative(base, path).split("/")) {
    if (name === "") continue;
    const above = handle;
    try {
      handle = await open(place(above, name), ITSELF);
      if ((await handle.stat()).isSymbolicLink()) {
        await handle.close();
        throw new NodeFilesError(`${path} was exchanged for a link while it was prepared: it is tried again`);
      }
    } finally {
      await above.close();
    }
  }
  return handle;
}

/** What is called `name` in an open directory. */
function place(directory: FileHandle, name: string): string {
  return `/proc/self/fd/${directory.fd}/${name}`;
}

/** Whether `target` shows what `handle` is; not, where the machine allows no mounts. */
async function bind(handle: FileHandle, target: string): Promise<boolean> {
  const opened = await handle.stat();
  const before = await ifThere(stat(target));
  if (before !== undefined && before.dev === opened.dev && before.ino === opened.ino) return true;
  if (before !== undefined) await removeTarget(target);
  await mkdir(dirname(target), { recursive: true, mode: PRIVATE_MODE });
  if (opened.isDirectory()) await mkdir(target, { mode: PRIVATE_MODE });
  else await writeFile(target, "", { mode: FILE_TARGET_MODE });
  return (await bindMount(handle.fd, target)) === "mounted";
}

/** The volume was written anew, or a directory in it replaced: running containers keep what they have, the next ones get the new. */
async function removeTarget(target: string): Promise<void> {
  await unmountWithin(target);
  await ((await lstat(target)).isDirectory() ? rmdir(target) : unlink(target));
}
