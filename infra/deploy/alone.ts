/** One run at a time in a checkout, and a second one is told so. */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Runs `work` while no other live process does so with the same `lockFile`, which holds its owner's pid; what a dead owner left is broken.
 *
 * @throws {Error} when another one runs
 */
export async function alone<T>(lockFile: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dirname(lockFile), { recursive: true });
  const owner = Number(await readFile(lockFile, "utf8").catch(() => ""));
  if (owner !== 0 && !isAlive(owner)) await rm(lockFile, { force: true });
  await writeFile(lockFile, String(process.pid), { flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new Error(`process ${owner || "?"} is at it in this checkout (${lockFile}): wait for its end, or take another checkout`);
  });
  try {
    return await work();
  } finally {
    await rm(lockFile, { force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // somebody else's
  }
}
