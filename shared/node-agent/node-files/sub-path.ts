/**
 * Prepares a subPath so that no content of the volume can lead the agent out of it (node-agent §7.5).
 *
 * SP1 links are followed only to targets inside the volume, such as `key → ..data/key`.
 * SP2 directories are created and opened from the volume downwards, each through the open directory above it and never through a link, so
 *     that an attacker cannot insert a link.
 * SP3 the runtime gets a bind mount of the opened file, below the pod's directory, where no container can write. Therefore, a path that
 *     is replaced after the check is not mounted. Only if the machine does not allow mounts does the runtime get the path.
 *
 * Source: pkg/volume/util/subpath/subpath_linux.go SafeMakeDir, PrepareSafeSubpath (CVE-2017-1002101, CVE-2021-25741).
 */
import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { lstat, mkdir, open, realpath, rmdir, stat, unlink, writeFile } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join, posix, relative } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import { errorCode, ifExists } from "./errors.ts";
import { bindMount, isDeadMount, unmountWithin } from "./mounts.ts";
import { ITSELF } from "./open-directory.ts";
import { PRIVATE_MODE, isWithin } from "./paths.ts";

/** The bits for permissions, setuid, setgid and sticky. */
const MODE_BITS = 0o7777;
const FILE_TARGET_MODE = 0o640;
/** Number of hexadecimal digits in the name of a bind mount's target. */
const NAME_LENGTH = 16;

/**
 * @param targets directory of the bind mounts, also for subPaths of a hostPath, because other pods can write to the hostPath
 * @param onRefused called if the machine does not allow mounts
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

/** Creates the missing directories of `wanted`. @returns the real path */
async function ensureDirectories(base: string, wanted: string): Promise<string> {
  const missing: string[] = [];
  let existing = wanted;
  while (existing !== base && (await ifExists(lstat(existing))) === undefined) {
    missing.unshift(posix.basename(existing));
    existing = dirname(existing);
  }
  const real = await ifExists(realpath(existing));
  if (real === undefined) throw new NodeFilesError(`${existing} is a dangling link: remove it from the volume`);
  if (!isWithin(base, real)) throw new NodeFilesError(`${existing} is a link to a target outside the volume: remove it`);
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

/** Copies the mode of the volume, including setgid and sticky bits, whatever the umask. */
async function makeOne(path: string, volumeMode: number): Promise<void> {
  try {
    await mkdir(path);
  } catch (error) {
    if (errorCode(error) === "EEXIST") return; // created concurrently; the next step opens it and fails if it is not a directory
    throw error;
  }
  const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    await handle.chmod(volumeMode & MODE_BITS);
  } finally {
    await handle.close();
  }
}

/** @throws {NodeFilesError} if a link is found between `base` and `path`, which the caller has resolved */
async function openWithin(base: string, path: string): Promise<FileHandle> {
  let handle = await open(base, ITSELF | constants.O_DIRECTORY);
  for (const name of relative(base, path).split("/")) {
    if (name === "") continue;
    const above = handle;
    try {
      handle = await open(place(above, name), ITSELF);
      if ((await handle.stat()).isSymbolicLink()) {
        await handle.close();
        throw new NodeFilesError(`a concurrent writer replaced ${path} with a link; the pod's next sync iteration retries`);
      }
    } finally {
      await above.close();
    }
  }
  return handle;
}

/** Returns the path of `name` in an open directory. */
function place(directory: FileHandle, name: string): string {
  return `/proc/self/fd/${directory.fd}/${name}`;
}

/** @returns false if the machine does not allow mounts */
async function bind(handle: FileHandle, target: string): Promise<boolean> {
  const opened = await handle.stat();
  const before = await ifExists(stat(target)).catch((error: unknown) => {
    if (isDeadMount(error)) return "dead";
    throw error;
  });
  if (typeof before === "object" && before.dev === opened.dev && before.ino === opened.ino) return true;
  if (before !== undefined) await removeTarget(target);
  await mkdir(dirname(target), { recursive: true, mode: PRIVATE_MODE });
  if (opened.isDirectory()) await mkdir(target, { mode: PRIVATE_MODE });
  else await writeFile(target, "", { mode: FILE_TARGET_MODE });
  return (await bindMount(handle.fd, target)) === "mounted";
}

/** Removes a target whose volume content was replaced. Running containers keep the old mount, and new containers get a new one. */
async function removeTarget(target: string): Promise<void> {
  await unmountWithin(target, { detach: true });
  await ((await lstat(target)).isDirectory() ? rmdir(target) : unlink(target));
}
