/** Mutual exclusion of processes by a file that contains its owner's pid. */
import { readFile, rm, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Called repeatedly while another live process holds the lock; may wait or throw. Returns true to break the lock.
 * `owner` is 0 while the owner creates or removes the file.
 */
export type WhenHeld = (owner: number) => boolean | Promise<boolean>;

/**
 * Runs `work` while it holds the lock, and breaks the lock of a dead owner. Not strict: two processes that break a lock at the same moment
 * both run.
 */
export async function holdingLock<T>(lockFile: string, whenHeld: WhenHeld, work: () => Promise<T>): Promise<T> {
  while (!(await isTaken(lockFile))) {
    const owner = Number(await readFile(lockFile, "utf8").catch(() => ""));
    if ((owner !== 0 && !isAlive(owner)) || (await whenHeld(owner))) await rm(lockFile, { force: true });
  }
  try {
    return await work();
  } finally {
    await rm(lockFile, { force: true });
  }
}

/** Waits up to `mostMs`, then breaks the lock. Calls `report` once. */
export function waitAtMost(
  { mostMs, pollMs }: { readonly mostMs: number; readonly pollMs: number },
  report: (owner: number) => void,
): WhenHeld {
  const giveUpAt = performance.now() + mostMs;
  let isReported = false;
  return async (owner) => {
    if (performance.now() > giveUpAt) return true;
    if (!isReported) report(owner);
    isReported = true;
    await sleep(pollMs);
    return false;
  };
}

async function isTaken(lockFile: string): Promise<boolean> {
  try {
    await writeFile(lockFile, String(process.pid), { flag: "wx" });
    return true;
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    return false;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"; // EPERM means that another user's process exists
  }
}
