/** A container log that has grown too large steps aside (node-agent §7.8). */
import { constants, createWriteStream } from "node:fs";
import { lstat, open, readdir, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import type { LogLimits, RotatedLog } from "../ports/node-files.ts";
import { ifThere } from "./errors.ts";

const COMPRESSED = ".gz";
/** What a compression that was cut short leaves behind. */
const DRAFT = ".tmp";

/**
 * `0.log` → `0.log.20261121-064805`. Compresses only earlier files, because the runtime and clients that
 * follow the log still have the newest one open. Removes the oldest beyond the limit.
 *
 * Source: pkg/kubelet/logs/container_log_manager.go rotateLog.
 */
export async function rotateLog(path: string, { bytesMax, filesMax, nowMs }: LogLimits): Promise<RotatedLog | undefined> {
  const size = (await ifThere(lstat(path)))?.size ?? 0;
  if (size <= bytesMax) return undefined;
  const folder = dirname(path);
  const siblings = ((await ifThere(readdir(folder))) ?? []).filter((name) => name.startsWith(`${basename(path)}.`));
  for (const name of siblings.filter((one) => one.endsWith(DRAFT))) await ifThere(unlink(join(folder, name)));
  const rotated = siblings.filter((name) => !name.endsWith(DRAFT)).toSorted();
  // Beside those that stay there will be the live one and the one that steps aside now.
  const kept = rotated.slice(Math.max(0, rotated.length - Math.max(0, filesMax - 2)));
  for (const name of rotated) if (!kept.includes(name)) await ifThere(unlink(join(folder, name)));
  for (const name of kept) if (!name.endsWith(COMPRESSED)) await compress(join(folder, name));
  const aside = `${path}.${timestamp(nowMs)}`;
  await rename(path, aside);
  return {
    async undo() {
      if ((await ifThere(lstat(path))) === undefined) await rename(aside, path);
    },
  };
}

/** Only regular files are rotated, because opening a FIFO would block a thread. */
async function compress(path: string): Promise<void> {
  if ((await ifThere(lstat(path)))?.isFile() !== true) return;
  const draft = `${path}${DRAFT}`;
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  await pipeline(file.createReadStream(), createGzip(), createWriteStream(draft, { flags: "wx" }));
  await rename(draft, `${path}${COMPRESSED}`);
  await unlink(path);
}

/** `20261121-064805`, UTC: names sort by age. */
function timestamp(ms: number): string {
  return new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:]/gu, "").replace("T", "-");
}
