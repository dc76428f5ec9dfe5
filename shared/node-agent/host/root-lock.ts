/** A lock file for the root directory, because two agents with one root directory would remove each other's pods (node-agent §0). */
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Another running agent holds the lock of this root directory. The operator must stop that agent or choose another directory. */
export class RootInUseError extends Error {
  override readonly name = "RootInUseError";
}

const NAME = "deltaloop-node.lock";

/** Acquires the lock. @returns a function that releases it @throws {RootInUseError} */
export async function lockRoot(rootDir: string): Promise<() => Promise<void>> {
  await mkdir(rootDir, { recursive: true, mode: 0o750 });
  const path = join(rootDir, NAME);
  const own = `${process.pid} ${await startOf(process.pid)}`;
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, own);
  try {
    for (;;) {
      try {
        await link(draft, path); // atomic, and never replaces an existing lock
        break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // fs errors are ErrnoExceptions
        const held = await readFile(path, "utf8").catch(() => "");
        const [pid = "", start = ""] = held.split(" ");
        if (start !== "" && (await startOf(Number(pid))) === start)
          throw new RootInUseError(`${rootDir} is used by another node agent (pid ${pid}): stop it, or choose another --root-dir`);
        await removeStale(path, held);
      }
    }
  } finally {
    await rm(draft, { force: true });
  }
  return async () => {
    if ((await readFile(path, "utf8").catch(() => "")) === own) await rm(path, { force: true });
  };
}

/** Removes the stale lock. If another agent has created a new lock in the meantime, restores that lock. */
async function removeStale(path: string, held: string): Promise<void> {
  const aside = `${path}.stale.${process.pid}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, "utf8")) !== held) await link(aside, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // fs errors are ErrnoExceptions
    if (code !== "ENOENT" && code !== "EEXIST") throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

/**
 * Identifies a process even if its pid is reused, by its start time in clock ticks and the boot id. Empty if the process is not running.
 */
async function startOf(pid: number): Promise<string> {
  try {
    const [stat, boot] = await Promise.all([readFile(`/proc/${pid}/stat`, "utf8"), readFile("/proc/sys/kernel/random/boot_id", "utf8")]);
    // The second field is the program's name in parentheses, which may contain spaces and parentheses.
    const afterName = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return afterName[0] === "Z" ? "" : `${afterName[19]}@${boot.trim()}`;
  } catch {
    return "";
  }
}
