/** Writing a secret that is a file. */
import { randomBytes } from "node:crypto";
import { lstat, readdir, realpath, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import { replaceFile } from "@deltaloop/base/system";
import type { Answer } from "./service.ts";

const OWNER_ONLY = 0o600;
const GROUP_READS = 0o040;
const OTHERS = 0o007;
/** Behind the name of the file that it is to replace. */
const DRAFT = /^\.[0-9a-f]{8}\.tmp$/;
/** A draft that is older is nobody's any more: it takes milliseconds to write. */
const DRAFT_MS_MAX = 60_000;

/**
 * Whoever reads meanwhile has the old value or the new one, whatever happens, and of several who write at once one value, whole. A link
 * stays, and the file it leads to is replaced. Owner and group stay; the group may go on reading a file that nobody beyond it could read, and
 * otherwise it is its owner's alone.
 */
export async function writeSecretFile(path: string, value: string): Promise<Answer> {
  const place = await followed(path);
  const before = await stat(place).catch(ifMissing);
  if (before?.isFile() === false) return { problem: "is no regular file" };
  try {
    await replaceFile(place, value, {
      draft: `${place}.${randomBytes(4).toString("hex")}.tmp`,
      async prepare(file) {
        if (before === undefined) return;
        const { uid, gid } = await file.stat();
        if (uid !== before.uid || gid !== before.gid) await file.chown(before.uid, before.gid);
        if ((before.mode & OTHERS) === 0) await file.chmod(OWNER_ONLY | (before.mode & GROUP_READS));
      },
    });
    await removeOldDrafts(place).catch(() => undefined); // they may be others'; the value is written
    return { value };
  } catch (error) {
    const problem = PROBLEMS[codeOf(error) ?? ""];
    if (problem === undefined) throw error;
    return { problem };
  }
}

/** Of a replacement that could not be made; the old value stands. */
const PROBLEMS: Readonly<Record<string, string>> = {
  EACCES: "cannot be replaced: whoever writes it needs to write in its directory, too (EACCES)",
  EPERM: "cannot be replaced with its owner and group kept: run this as its owner, or as root (EPERM)",
  EBUSY: "cannot be replaced, as it is mounted alone: mount its directory (EBUSY)",
  EROFS: "cannot be replaced: its file system is read-only (EROFS)",
  ENOSPC: "cannot be replaced: its file system is full (ENOSPC)",
  EDQUOT: "cannot be replaced: the quota of its file system is used up (EDQUOT)",
};

/** What a crash left: it holds a value. */
async function removeOldDrafts(place: string): Promise<void> {
  const [directory, name] = [dirname(place), basename(place)];
  for (const each of await readdir(directory)) {
    if (!each.startsWith(name) || !DRAFT.test(each.slice(name.length))) continue;
    const draft = join(directory, each);
    const { mtimeMs = Infinity } = (await stat(draft).catch(ifMissing)) ?? {};
    if (mtimeMs < Date.now() - DRAFT_MS_MAX) await rm(draft, { force: true });
  }
}

/** Where links lead. Of a file that is not there yet its directory must be. */
async function followed(path: string): Promise<string> {
  const place = await realpath(path).catch(ifMissing);
  if (place !== undefined) return place;
  const directory = await realpath(dirname(path));
  if ((await lstat(path).catch(ifMissing)) !== undefined) throw Object.assign(new Error("a link to nothing"), { code: "ENOENT" });
  return join(directory, basename(path));
}

function ifMissing(error: unknown): undefined {
  if (codeOf(error) !== "ENOENT") throw error;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
