/** What files and directories take of their disk, each once however many names it has; not what is mounted below, and nothing that a link leads to. */
import { lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { DiskUsage, VolumeUsage } from "../ports/node-files.ts";
import { ifThereNow } from "./errors.ts";
import type { FairTurns } from "./fair-turns.ts";
import { walkTree } from "./walk-tree.ts";

/** Of a block as `stat` counts them, whatever the file system's own. */
const BLOCK_BYTES = 512;
/** Entries for which a walk keeps its turn: some milliseconds. */
const PIECE = 256;

/**
 * Measures a tree of any size on libuv threads, because a mount in it may block a call forever. Works
 * in pieces, so that other trees are measured meanwhile.
 *
 * Source: google/cadvisor utils/fs GetDirUsage. Differs from upstream: no path is too long, and unreadable entries are reported, and
 * the rest is counted.
 *
 * @throws what `signal` was aborted with; what keeps it from looking at `path` itself
 */
export async function diskUsage(
  path: string,
  { turns, signal }: { readonly turns: FairTurns; readonly signal: AbortSignal },
): Promise<VolumeUsage> {
  /** Of inodes that have more names: how many of them were not met yet. */
  const names = new Map<number, number>();
  let [blocks, inodesUsed, steps] = [0, 0, 0];
  let hasTurn = false;
  const step = (): Promise<void> | undefined => {
    signal.throwIfAborted();
    if (++steps % PIECE > 0) return undefined;
    turns.give();
    return take();
  };
  const take = async (): Promise<void> => {
    hasTurn = false;
    await turns.take(signal);
    hasTurn = true;
  };
  await take();
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
    if (hasTurn) turns.give();
  }
}

/** Of a few entries that only this agent and the runtime write: a thread costs more than the answer. What is not there takes nothing. */
export function diskUsageAtOnce(path: string): DiskUsage {
  const root = ifThereNow(() => lstatSync(path));
  const seen = new Set<number>();
  let blocks = 0;
  const waiting = root === undefined ? [] : [path];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const own = next;
    const found = ifThereNow(() => lstatSync(own));
    if (found === undefined || found.dev !== root?.dev || seen.has(found.ino)) continue;
    seen.add(found.ino);
    blocks += found.blocks;
    if (found.isDirectory()) for (const name of ifThereNow(() => readdirSync(own)) ?? []) waiting.push(join(own, name));
  }
  return { usedBytes: blocks * BLOCK_BYTES, inodesUsed: seen.size };
}
