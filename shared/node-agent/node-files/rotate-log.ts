/** Rotates container logs that exceed their size limit (node-agent §7.8). */
import { constants, createWriteStream } from "node:fs";
import { lstat, open, readdir, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { LogLimits, RotatedLog } from "../ports/node-files.ts";
import { ifExists } from "./errors.ts";

const COMPRESSED = ".gz";
/** Suffix of a file that is still being compressed. */
const DRAFT = ".tmp";

/**
 * Renames `0.log` to `0.log.20261121-064805`, compresses earlier rotated files, and removes the oldest files beyond the limit. The newest
 * rotated file is not compressed, because the runtime and clients still have it open.
 *
 * Source: pkg/kubelet/logs/container_log_manager.go rotateLog.
 */
export async function rotateLog(path: string, { bytesMax, filesMax, nowMs }: LogLimits): Promise<RotatedLog | undefined> {
  const size = (await ifExists(lstat(path)))?.size ?? 0;
  if (size <= bytesMax) return undefined;
  const folder = dirname(path);
  const siblings = ((await ifExists(readdir(folder))) ?? []).filter((name) => name.startsWith(`${basename(path)}.`));
  for (const name of siblings.filter((one) => one.endsWith(DRAFT))) await ifExists(unlink(join(folder, name)));
  const rotated = siblings.filter((name) => !name.endsWith(DRAFT)).toSorted();
  // `filesMax` includes the live file and the file that is being rotated.
  const kept = rotated.slice(Math.max(0, rotated.length - Math.max(0, filesMax - 2)));
  for (const name of rotated) if (!kept.includes(name)) await ifExists(unlink(join(folder, name)));
  for (const name of kept) if (!name.endsWith(COMPRESSED)) await compress(join(folder, name));
  const aside = `${path}.${timestamp(nowMs)}`;
  await rename(path, aside);
  return {
    async undo() {
      if ((await ifExists(lstat(path))) === undefined) await rename(aside, path);
    },
  };
}

/** Compresses only a regular file, because opening a FIFO would block a thread. */
async function compress(path: string): Promise<void> {
  if ((await ifExists(lstat(path)))?.isFile() !== true) return;
  const draft = `${path}${DRAFT}`;
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  await pipeline(file.createReadStream(), createGzip(), createWriteStream(draft, { flags: "wx" }));
  await rename(draft, `${path}${COMPRESSED}`);
  await unlink(path);
}

/** Formats a time in UTC as `20261121-064805`, so that names sort by age. */
function timestamp(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/gu, "").replace("T", "-");
}
