/** Mounts, unmounts, and reads the mount table. Node.js has no mount calls, so this runs the machine's `mount` and `umount`. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import { createCommandShell } from "./command-shell.ts";
import { errorCode, ifExists, ifExistsSync } from "./errors.ts";
import { isWithin } from "./paths.ts";

/**
 * Timeout of a mount. A slower mount counts as hanging, for example because its server is unreachable; the pod's next sync iteration
 * retries it.
 */
const COMMAND_MS = 30_000;
/** Maximum number of mounts per directory, including mounts that containers created in their volumes. Each stacked mount counts. */
const MOUNTS_MAX = 10_000;

const shell = createCommandShell();
/** Whether the kernel supports `noswap`, which was added in 6.4. Assumed until a mount fails. */
let knowsNoSwap = true;

/** `refused` means that the machine does not allow mounts, or has no `mount` command. Other failures throw. */
export type MountOutcome = "mounted" | "refused";

/** Returns the mount points at and below `directory`, deepest first. A mount point is listed once for each mount stacked on it. */
async function mountsWithin(directory: string): Promise<readonly string[]> {
  const base = await ifExists(realPathOf(directory)); // this call may block because of another program's mount
  if (base === undefined) return [];
  return (await mountTable()).filter((path) => path.startsWith(base) && isWithin(base, path)).toReversed();
}

/** Errors of a mount whose server is unreachable. Source: k8s.io/mount-utils mount_helper_unix.go IsCorruptedMnt. */
const DEAD = ["ENOTCONN", "ESTALE", "EIO", "EACCES", "EHOSTDOWN", "EWOULDBLOCK", "ENODEV"];

export function isDeadMount(error: unknown): boolean {
  return DEAD.includes(errorCode(error) ?? "");
}

/** Returns the real path. Also works for a dead mount, whose own name cannot be resolved. */
async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isDeadMount(error)) throw error;
    return join(await realpath(dirname(path)), basename(path));
  }
}

let nextTable: Promise<readonly string[]> | undefined;

/** Reads the table once for all callers in an iteration of the event loop, because with a hundred mounts a read takes a millisecond. */
function mountTable(): Promise<readonly string[]> {
  nextTable ??= new Promise((resolve, reject) => {
    setImmediate(() => {
      nextTable = undefined;
      try {
        resolve(mountPoints(readProc("mountinfo")));
      } catch (error) {
        reject(error as Error); // for example EMFILE
      }
    });
  });
  return nextTable;
}

/** Reads a file in /proc/self, which never blocks. */
function readProc(name: "mountinfo" | "status"): string {
  return ifExistsSync(() => readFileSync(`/proc/self/${name}`, "utf8")) ?? "";
}

/** Parses /proc/self/mountinfo. The oldest mount comes first, so a mount always follows the mount that contains it. */
function mountPoints(table: string): readonly string[] {
  return table.split("\n").flatMap((line) => line.split(" ")[4]?.replace(/\\([0-7]{3})/gu, unescaped) ?? []);
}

function unescaped(_escape: string, octal: string): string {
  return String.fromCodePoint(Number.parseInt(octal, 8));
}

/** Compares device ids, so it does not detect a bind mount from the parent's own file system. */
export async function isMountPoint(directory: string): Promise<boolean> {
  const [own, above] = await Promise.all([ifExists(stat(directory)), ifExists(stat(dirname(directory)))]);
  return own !== undefined && own.dev !== above?.dev;
}

/** Without a size, the kernel limits the tmpfs to half of the memory. Uses `noswap` if the kernel supports it. */
export async function mountTmpfs(directory: string, sizeBytes?: number): Promise<MountOutcome> {
  const size = sizeBytes === undefined ? [] : [`size=${sizeBytes}`];
  const mount = (options: readonly string[]): Promise<CommandEnd> =>
    run("mount", ["-t", "tmpfs", ...(options.length === 0 ? [] : ["-o", options.join(",")]), "tmpfs", directory]);
  if (knowsNoSwap) {
    const unswapped = await mount([...size, "noswap"]);
    if (unswapped.kind !== "failed") return unswapped.kind === "done" ? "mounted" : "refused";
  }
  const outcome = outcomeOf(await mount(size), directory);
  knowsNoSwap &&= outcome !== "mounted";
  return outcome;
}

/** Bind-mounts the open file `fd` at `target`, even if the path of the file has changed since it was opened. */
export async function bindMount(fd: number, target: string): Promise<MountOutcome> {
  return outcomeOf(await run("mount", ["--no-canonicalize", "-o", "bind", `/proc/${process.pid}/fd/${fd}`, target]), target);
}

/**
 * Unmounts all mounts at or below `directory`. With `detach`, this succeeds even while processes use a mount; the mount then ends with
 * its last user. @throws {NodeFilesError} if a mount remains
 */
export async function unmountWithin(directory: string, { detach = false }: { readonly detach?: boolean } = {}): Promise<void> {
  const points = await mountsWithin(directory);
  if (points.length === 0) return;
  if (points.length > MOUNTS_MAX) throw new NodeFilesError(`too many mounts (${points.length}) in ${directory}: unmount them by hand`);
  for (const point of points) {
    const end = await run("umount", detach ? ["-l", point] : [point]);
    if (end.kind !== "done")
      throw new NodeFilesError(`failed to unmount ${point} (${end.message}): end the processes that use it, or unmount it by hand`);
  }
  const [left] = await mountsWithin(directory);
  if (left !== undefined) throw new NodeFilesError(`${left} was mounted again: unmount it by hand`);
}

function outcomeOf(end: CommandEnd, directory: string): MountOutcome {
  if (end.kind === "failed") throw new NodeFilesError(`failed to mount at ${directory} (${end.message}): see the kernel log`);
  return end.kind === "done" ? "mounted" : "refused";
}

type CommandEnd = { readonly kind: "done" } | { readonly kind: "refused" | "failed"; readonly message: string };

const NO_RIGHT = /permission denied|operation not permitted|must be superuser|only root|unrecognized option/iu;
/** Number of the capability's bit, from linux/capability.h. Without this capability, every mount fails, whatever message `mount` prints. */
const CAP_SYS_ADMIN = 1n << 21n;

/** Tries the shell first. If that fails, runs the command directly, and uses its exit code and message. */
async function run(command: "mount" | "umount", args: readonly string[]): Promise<CommandEnd> {
  const startedMs = performance.now();
  if ((await shell.run(command, args, COMMAND_MS)) === 0) return { kind: "done" };
  if (performance.now() - startedMs >= COMMAND_MS) return { kind: "failed", message: `timed out after ${COMMAND_MS / 1000} s` };
  const options = { timeout: COMMAND_MS, killSignal: "SIGKILL", env: { ...process.env, LC_ALL: "C" } } as const;
  const failure = await new Promise<{ readonly error: Error; readonly stderr: string } | undefined>((resolve) => {
    execFile(command, args, options, (error, _stdout, stderr) => resolve(error === null ? undefined : { error, stderr }));
  });
  if (failure === undefined) return { kind: "done" };
  const { error, stderr } = failure;
  const isRefused = errorCode(error) === "ENOENT" || NO_RIGHT.test(stderr) || !mayMount();
  return { kind: isRefused ? "refused" : "failed", message: stderr.trim() || error.message };
}

function mayMount(): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/mu.exec(readProc("status"))?.[1];
  return effective !== undefined && (BigInt(`0x${effective}`) & CAP_SYS_ADMIN) !== 0n;
}
