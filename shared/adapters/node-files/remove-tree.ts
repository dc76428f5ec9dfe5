/** Removing a directory that others could mount in (NF4). */
import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { NodeFilesError } from "../../ports/node-files.ts";
import { ifThere } from "./errors.ts";
import { unmountWithin } from "./mounts.ts";

/**
 * Unmounts what is mounted at or below `directory`, then removes it. What is on another file system than `directory` itself is
 * never touched, so that a mount that came meanwhile costs an error and not its content.
 *
 * Source: pkg/util/removeall RemoveAllOneFilesystem.
 */
export async function removeTree(directory: string): Promise<void> {
  await unmountWithin(directory);
  const stats = await ifThere(lstat(directory));
  if (stats !== undefined) await removeOn(stats.dev, directory);
}

async function removeOn(device: number, path: string): Promise<void> {
  const stats = await ifThere(lstat(path));
  if (stats === undefined) return;
  if (stats.dev !== device) throw new NodeFilesError(`${path} is on another file system: unmount it by hand`);
  if (!stats.isDirectory()) {
    await ifThere(unlink(path));
    return;
  }
  for (const name of (await ifThere(readdir(path))) ?? []) await removeOn(device, join(path, name));
  await ifThere(rmdir(path));
}
