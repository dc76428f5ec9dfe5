/** Allows one deployment run at a time in a checkout; a second run fails with a message. */
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";

import { holdingLock } from "../build/lock-file.ts";

/** @throws {Error} when another one runs */
export async function alone<T>(lockFile: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(lockFile), { recursive: true });
  const refuse = (owner: number): never => {
    throw new Error(`process ${owner || "?"} is at it in this checkout (${lockFile}): wait for its end, or take another checkout`);
  };
  return await holdingLock(lockFile, refuse, work);
}
