/** Gives the pod's fsGroup access to a volume (node-agent §10). */
import { closeSync } from "node:fs";
import { chmod, chown, lchown } from "node:fs/promises";
import { openItself, placeIn } from "./open-directory.ts";
import { walkTree } from "./walk-tree.ts";

const READ_WRITE = 0o660;
const READ = 0o440;
/** Mode bits of a directory: search permission for the group, and setgid so that new files inherit the group. */
const DIRECTORY = 0o2110;
const MODE_BITS = 0o7777;

/**
 * Changes the group of `path` and of all entries below it, and grants the group access. Follows no links, even if a container replaces a
 * file with a link during the call.
 *
 * Source: pkg/volume/volume_linux.go changeFilePermission. Differs from upstream: a failure is returned as an error; upstream only logs
 * it, and the pod fails later.
 */
export async function giveToGroup(path: string, group: number, access: "read" | "readWrite"): Promise<void> {
  const failure = await walkTree(path, {
    async visit({ place }) {
      const own = await openItself(place);
      try {
        const { stats } = own;
        if (stats.isSymbolicLink()) return await lchown(place, stats.uid, group);
        await chown(placeIn(own), stats.uid, group);
        const mask = (access === "read" ? READ : READ_WRITE) | (stats.isDirectory() ? DIRECTORY : 0);
        await chmod(placeIn(own), (stats.mode & MODE_BITS) | mask);
      } finally {
        closeSync(own.fd);
      }
    },
  });
  if (failure !== undefined) throw failure;
}
