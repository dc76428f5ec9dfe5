/** Replaces a file atomically: a crash leaves the old content or the new one (NF7), a full disk leaves the old content. */
import { mkdir, open, rename, rm } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";

const PRIVATE_FILE_MODE = 0o600;

export interface Replacement {
  /** Called with the new file before it is renamed, to change its mode or owner. Default: readable by its owner only. */
  readonly prepare?: (file: FileHandle) => Promise<void>;
  /** Path of the temporary file. Default: one fixed path, for files with a single writer. */
  readonly draft?: string;
}

export async function replaceFile(
  path: string,
  content: string,
  { prepare, draft: next = `${path}.tmp` }: Replacement = {},
): Promise<void> {
  // A file left by a crash may have another mode.
  await rm(next, { force: true });
  const make = async (): Promise<FileHandle> => await open(next, "wx", PRIVATE_FILE_MODE);
  const file = await make().catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    await mkdir(dirname(path), { recursive: true });
    return await make();
  });
  try {
    try {
      await prepare?.(file);
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(next, path);
  } catch (error) {
    await rm(next, { force: true });
    throw error;
  }
  // The rename is durable once the directory is synced.
  const directory = await open(dirname(path), "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
