/** Disk usage of files and directories. Counts each inode once, and neither follows links nor enters other file systems. */
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { DiskUsage, VolumeUsage } from "../ports/node-files.ts";
import { ifExistsSync } from "./errors.ts";
import type { FairSemaphore } from "./fair-semaphore.ts";
import { walkTree } from "./walk-tree.ts";

/** Unit of `st_blocks`, whatever the block size of the file system. */
const BLOCK_BYTES = 512;
/** Number of entries, which take some milliseconds, after which a walk lets other walks continue. */
const BATCH = 256;

/**
 * Measures a tree of any size. Runs on libuv threads, because a mount in the tree may block a call forever.
 *
 * Source: google/cadvisor utils/fs GetDirUsage. Differs from upstream: paths of any length work, and unreadable entries are reported
 * instead of ending the walk.
 *
 * @throws the abort reason of `signal`, or the error if `path` itself cannot be read
 */
export async function diskUsage(
  path: string,
  { semaphore, signal }: { readonly semaphore: FairSemaphore; readonly signal: AbortSignal },
): Promise<VolumeUsage> {
  /** For each inode with several hard links, the number of names that the walk has not visited yet. */
  const names = new Map<number, number>();
  let [blocks, inodesUsed, steps] = [0, 0, 0];
  let isHeld = false;
  const step = (): Promise<void> | undefined => {
    signal.throwIfAborted();
    if (++steps % BATCH > 0) return undefined;
    semaphore.release();
    return acquire();
  };
  const acquire = async (): Promise<void> => {
    isHeld = false;
    await semaphore.acquire(signal);
    isHeld = true;
  };
  await acquire();
  try {
    const failure = await walkTree(path, {
      step,
      visit({ stats }) {
        if (!stats.isDirectory() && stats.nlink > 1) {
          const left = names.get(stats.ino);
          if (left === undefined || left > 1) names.set(stats.ino, (left ?? stats.nlink) - 1);
          else names.delete(stats.ino);
          if (left !== undefined) return;
        }
        inodesUsed++;
        blocks += stats.blocks;
      },
    });
    return { usedBytes: blocks * BLOCK_BYTES, inodesUsed, ...(failure !== undefined && { failure: String(failure) }) };
  } finally {
    if (isHeld) semaphore.release();
  }
}

/**
 * Measures a few entries to which only this agent and the runtime write. Synchronous, because a thread would cost more. Returns 0 for a
 * missing path.
 */
export function diskUsageAtOnce(path: string): DiskUsage {
  const root = ifExistsSync(() => lstatSync(path));
  const seen = new Set<number>();
  let blocks = 0;
  const waiting = root === undefined ? [] : [path];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const own = next;
    const found = ifExistsSync(() => lstatSync(own));
    if (found === undefined || found.dev !== root?.dev || seen.has(found.ino)) continue;
    seen.add(found.ino);
    blocks += found.blocks;
    if (found.isDirectory()) for (const name of ifExistsSync(() => readdirSync(own)) ?? []) waiting.push(join(own, name));
  }
  return { usedBytes: blocks * BLOCK_BYTES, inodesUsed: seen.size };
}
