/** Two agents on one root would tidy each other's pods away (node-agent §0). */
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Another agent that lives has this root. The message names both. */
export class RootInUseError extends Error {
  override readonly name = "RootInUseError";
}

const NAME = "deltaloop-node.lock";

/** @returns what gives the root back. @throws {RootInUseError} */
export async function lockRoot(rootDir: string): Promise<() => Promise<void>> {
  await mkdir(rootDir, { recursive: true, mode: 0o750 });
  const path = join(rootDir, NAME);
  const mine = `${process.pid} ${await startOf(process.pid)}`;
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, mine);
  try {
    for (;;) {
      try {
        await link(draft, path); // whole or not at all, and never over another's
        break;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error; // every error of fs is one
        const held = await readFile(path, "utf8").catch(() => "");
        const [pid = "", start = ""] = held.split(" ");
        if (start !== "" && (await startOf(Number(pid))) === start)
          throw new RootInUseError(`${rootDir} is used by another node agent (pid ${pid}): end it, or choose another --root-dir`);
        await takeAway(path, held);
      }
    }
  } finally {
    await rm(draft, { force: true });
  }
  return async () => {
    if ((await readFile(path, "utf8").catch(() => "")) === mine) await rm(path, { force: true });
  };
}

/** Only the lock that was looked at: another agent may have put its own there meanwhile, and gets it back. */
async function takeAway(path: string, held: string): Promise<void> {
  const aside = `${path}.stale.${process.pid}`;
  try {
    await rename(path, aside);
    if ((await readFile(aside, "utf8")) !== held) await link(aside, path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException; // every error of fs is one
    if (code !== "ENOENT" && code !== "EEXIST") throw error;
  } finally {
    await rm(aside, { force: true });
  }
}

/** A pid comes again, its start does not: clock ticks since boot, and the boot. Empty when there is no such process. */
async function startOf(pid: number): Promise<string> {
  try {
    const [stat, boot] = await Promise.all([readFile(`/proc/${pid}/stat`, "utf8"), readFile("/proc/sys/kernel/random/boot_id", "utf8")]);
    // The second field is the program's name in parentheses, which may hold anything.
    const afterName = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return afterName[0] === "Z" ? "" : `${afterName[19]}@${boot.trim()}`;
  } catch {
    return "";
  }
}
