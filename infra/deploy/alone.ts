/** Allows one deployment run at a time in a checkout; a second run fails with a message. */
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

import { holdingLock } from "../build/lock-file.ts";

/** @throws {Error} while another process holds the lock */
export async function alone<T>(lockFile: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(lockFile), { recursive: true });
  const refuse = (owner: number): never => {
    throw new Error(`process ${owner || "?"} is deploying from this checkout (${lockFile}): wait until it ends, or use another checkout`);
  };
  return await holdingLock(lockFile, refuse, work);
}
