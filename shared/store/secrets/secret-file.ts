/** Writes a secret to a file. */
import { randomBytes } from "node:crypto";
import { lstat, readdir, realpath, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import { replaceFile } from "@deltaloop/base/system";
import type { Answer } from "./service.ts";

const OWNER_ONLY = 0o600;
const GROUP_READS = 0o040;
const OTHERS = 0o007;
/** Suffix of a draft: a temporary file named after the file that it replaces. */
const DRAFT = /^\.[0-9a-f]{8}\.tmp$/;
/** Age from which a temporary file is a remnant of a crash, because writing takes milliseconds. */
const DRAFT_MS_MAX = 60_000;

/**
 * Replaces the file atomically: a concurrent reader gets the old or the new value, and of concurrent writers one wins. A link stays, and
 * its target is replaced. Owner and group stay. The mode is owner-only, except that the group keeps read access to a file that others
 * could not read.
 */
export async function writeSecretFile(path: string, value: string): Promise<Answer> {
  const place = await followed(path);
  const before = await stat(place).catch(ifMissing);
  if (before?.isFile() === false) return { problem: "is not a regular file" };
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
    await removeOldDrafts(place).catch(() => undefined); // the value is already written, and an old draft may belong to another user
    return { value };
  } catch (error) {
    const problem = PROBLEMS[codeOf(error) ?? ""];
    if (problem === undefined) throw error;
    return { problem };
  }
}

/** Problems by error code when the file cannot be replaced; it then keeps the old value. */
const PROBLEMS: Readonly<Record<string, string>> = {
  EACCES: "cannot be replaced: the writer also needs write access to its directory (EACCES)",
  EPERM: "cannot be replaced with its owner and group kept: run this as its owner, or as root (EPERM)",
  EBUSY: "cannot be replaced because it is mounted as a single file: mount its directory (EBUSY)",
  EROFS: "cannot be replaced: its file system is read-only (EROFS)",
  ENOSPC: "cannot be replaced: its file system is full (ENOSPC)",
  EDQUOT: "cannot be replaced: the quota of its file system is used up (EDQUOT)",
};

/** Removes temporary files that a crash left, because they contain a value. */
async function removeOldDrafts(place: string): Promise<void> {
  const [directory, name] = [dirname(place), basename(place)];
  for (const each of await readdir(directory)) {
    if (!each.startsWith(name) || !DRAFT.test(each.slice(name.length))) continue;
    const draft = join(directory, each);
    const { mtimeMs = Infinity } = (await stat(draft).catch(ifMissing)) ?? {};
    if (mtimeMs < Date.now() - DRAFT_MS_MAX) await rm(draft, { force: true });
  }
}

/** Resolves links. If the file does not exist yet, its directory must exist. */
async function followed(path: string): Promise<string> {
  const place = await realpath(path).catch(ifMissing);
  if (place !== undefined) return place;
  const directory = await realpath(dirname(path));
  if ((await lstat(path).catch(ifMissing)) !== undefined)
    throw Object.assign(new Error("a symbolic link whose target does not exist"), { code: "ENOENT" });
  return join(directory, basename(path));
}

function ifMissing(error: unknown): undefined {
  if (codeOf(error) !== "ENOENT") throw error;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
