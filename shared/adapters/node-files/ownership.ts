/** A volume given to its pod's fsGroup (node-agent §10). */
import { chmod, lchown, lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

const READ_WRITE = 0o660;
const READ = 0o440;
/** Entering, and that new files belong to the group as well. */
const DIRECTORY = 0o2110;
const MODE_BITS = 0o7777;

/**
 * The group owns `path` and all below it, and may read, and write where the agent is not the only writer; links are not followed.
 *
 * Source: pkg/volume/volume_linux.go changeFilePermission. Differs from upstream: what cannot be given away is an error; upstream
 * logs it and the pod fails later.
 */
export async function giveToGroup(path: string, group: number, access: "read" | "readWrite"): Promise<void> {
  const stats = await lstat(path);
  await lchown(path, stats.uid, group);
  if (stats.isSymbolicLink()) return;
  const mask = (access === "read" ? READ : READ_WRITE) | (stats.isDirectory() ? DIRECTORY : 0);
  await chmod(path, (stats.mode & MODE_BITS) | mask);
  if (!stats.isDirectory()) return;
  for (const name of await readdir(path)) await giveToGroup(join(path, name), group, access);
}
