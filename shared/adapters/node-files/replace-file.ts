/** One file, replaced so that a crash at any point leaves the old content or the new one (NF7). */
import { mkdir, open, rename } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "./errors.ts";

const PRIVATE_FILE_MODE = 0o600;

export async function replaceFile(path: string, content: string): Promise<void> {
  const next = `${path}.tmp`;
  const make = async (): Promise<FileHandle> => await open(next, "w", PRIVATE_FILE_MODE);
  const file = await make().catch(async (error: unknown) => {
    if (errorCode(error) !== "ENOENT") throw error;
    await mkdir(dirname(path), { recursive: true });
    return await make();
  });
  try {
    await file.writeFile(content);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(next, path);
  // The new name is on disk only with its directory.
  const directory = await open(dirname(path), "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
