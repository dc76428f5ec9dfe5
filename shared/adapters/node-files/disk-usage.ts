/** What a directory takes of its disk. */
import { lstatSync, readdirSync } from "node:fs";
import type { Stats } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { DiskUsage } from "../../ports/node-files.ts";
import { ifThere, ifThereNow } from "./errors.ts";

/** Of a block as `stat` counts them, whatever the file system's own. */
const BLOCK_BYTES = 512;

/** How a tree is looked at; undefined for what is not there. */
interface Look {
  stats(path: string): Promise<Stats | undefined>;
  names(folder: string): Promise<readonly string[] | undefined>;
}

/** By threads of libuv's: whoever may mount in the tree may keep a call for ever. */
const AS_OTHERS_WANT: Look = { stats: (path) => ifThere(lstat(path)), names: (folder) => ifThere(readdir(folder)) };
/** For a few entries that only this agent and the runtime write: a thread costs more than the answer. */
export const AT_ONCE: Look = {
  stats: async (path) => ifThereNow(() => lstatSync(path)),
  names: async (folder) => ifThereNow(() => readdirSync(folder)),
};

/**
 * Blocks and inodes, each once however many names it has; not what is mounted below, and nothing that a link leads to.
 *
 * Source: google/cadvisor utils/fs GetDirUsage.
 */
export async function diskUsage(path: string, look: Look = AS_OTHERS_WANT): Promise<DiskUsage> {
  const root = await look.stats(path);
  if (root === undefined) return { usedBytes: 0, inodesUsed: 0 };
  const seen = new Set<number>();
  let blocks = 0;
  const waiting = [path];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const found = await look.stats(next);
    if (found === undefined || found.dev !== root.dev || seen.has(found.ino)) continue;
    seen.add(found.ino);
    blocks += found.blocks;
    if (!found.isDirectory()) continue;
    for (const name of (await look.names(next)) ?? []) waiting.push(join(next, name));
  }
  return { usedBytes: blocks * BLOCK_BYTES, inodesUsed: seen.size };
}
