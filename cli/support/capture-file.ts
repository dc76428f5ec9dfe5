/** Where a capture goes. */
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { UsageError } from "./usage-error.ts";
import { messageOf } from "../../shared/api/errors.ts";

const OWNER_ONLY = 0o600;

/**
 * Emptied, or made; `raw` captures hold every secret of the objects, so nobody but their owner may read the file, also when it
 * was there before.
 *
 * @throws {UsageError} when it cannot be written
 */
export async function openCapture(path: string, { raw }: { readonly raw: boolean }): Promise<FileHandle> {
  try {
    const file = await open(path, "w", raw ? OWNER_ONLY : 0o666);
    if (raw && (await file.stat()).isFile()) await file.chmod(OWNER_ONLY);
    return file;
  } catch (error) {
    throw new UsageError(`${path} cannot be written: ${messageOf(error)}`);
  }
}
