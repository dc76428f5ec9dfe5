/** What a directory takes of its disk. */
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { DiskUsage } from "../../ports/node-files.ts";
import { ifThere } from "./errors.ts";

/** Of a block as `stat` counts them, whatever the file system's own. */
const BLOCK_BYTES = 512;

/**
 * Blocks and inodes, each once however many names it has; not what is mounted below, and nothing that a link leads to.
 *
 * Source: google/cadvisor utils/fs GetDirUsage.
 */
export async function diskUsage(path: string): Promise<DiskUsage> {
  const root = await ifThere(lstat(path));
  if (root === undefined) return { usedBytes: 0, inodesUsed: 0 };
  const seen = new Set<number>();
  let blocks = 0;
  const waiting = [path];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const found = await ifThere(lstat(next));
    if (found === undefined || found.dev !== root.dev || seen.has(found.ino)) continue;
    seen.add(found.ino);
    blocks += found.blocks;
    if (!found.isDirectory()) continue;
    const parent = next;
    waiting.push(...((await ifThere(readdir(parent))) ?? []).map((name) => join(parent, name)));
  }
  return { usedBytes: blocks * BLOCK_BYTES, inodesUsed: seen.size };
}
