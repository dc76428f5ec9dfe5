/** What is mounted, and mounting: Node has no calls for it, so the machine's own `mount` and `umount` do it. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import { createCommandShell } from "./command-shell.ts";
import { errorCode, ifThere, ifThereNow } from "./errors.ts";
import { isWithin } from "./paths.ts";

/** A mount that takes longer hangs (a dead server behind it); the pod is tried again. */
const COMMAND_MS = 30_000;
/** Of one directory, with what containers mounted in their volumes; stacked ones count each. */
const MOUNTS_MAX = 10_000;

const shell = createCommandShell();
/** Of kernels before 6.4. */
let knowsNoSwap = true;

/** `refused`: this machine allows no mounts, or has no `mount`. Anything else that goes wrong is an error. */
export type MountOutcome = "mounted" | "refused";

/** Mount points at and below `directory`, deepest first; those that are stacked come once per layer. */
async function mountsWithin(directory: string): Promise<readonly string[]> {
  const base = await ifThere(realpath(directory)); // something foreign may be mounted there, and may not answer
  if (base === undefined) return [];
  return (await mountTable()).filter((path) => path.startsWith(base) && isWithin(base, path)).toReversed();
}

let nextTable: Promise<readonly string[]> | undefined;

/** Read once for all callers in one event-loop iteration: with a hundred mounts the kernel takes a millisecond. */
function mountTable(): Promise<readonly string[]> {
  nextTable ??= new Promise((resolve, reject) => {
    setImmediate(() => {
      nextTable = undefined;
      try {
        resolve(mountPoints(readProc("mountinfo")));
      } catch (error) {
        reject(error as Error); // no file can be opened, for example
      }
    });
  });
  return nextTable;
}

/** Of this process; the kernel's memory, so that it waits for nothing. */
function readProc(name: "mountinfo" | "status"): string {
  return ifThereNow(() => readFileSync(`/proc/self/${name}`, "utf8")) ?? "";
}

/** Of the text of /proc/self/mountinfo, oldest first: what is mounted inside another mount is younger than it. */
function mountPoints(table: string): readonly string[] {
  return table.split("\n").flatMap((line) => line.split(" ")[4]?.replace(/\\([0-7]{3})/gu, unescaped) ?? []);
}

function unescaped(_escape: string, octal: string): string {
  return String.fromCodePoint(Number.parseInt(octal, 8));
}

/** Whether another file system begins at `directory`. One that shows a part of its parent's own, as a bind mount may, is not seen. */
export async function isMountPoint(directory: string): Promise<boolean> {
  const [own, above] = await Promise.all([ifThere(stat(directory)), ifThere(stat(dirname(directory)))]);
  return own !== undefined && own.dev !== above?.dev;
}

/** Without a size the kernel's own bound holds (half the memory). Kept out of swap where the kernel can. */
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

/** Makes `target` show what the open file `fd` of this process is, whatever its path has become. */
export async function bindMount(fd: number, target: string): Promise<MountOutcome> {
  return outcomeOf(await run("mount", ["--no-canonicalize", "-o", "bind", `/proc/${process.pid}/fd/${fd}`, target]), target);
}

/** @throws {NodeFilesError} when something stays mounted */
export async function unmountWithin(directory: string): Promise<void> {
  const points = await mountsWithin(directory);
  if (points.length === 0) return;
  if (points.length > MOUNTS_MAX) throw new NodeFilesError(`${points.length} mounts inside ${directory}: unmount them by hand`);
  for (const point of points) {
    const end = await run("umount", [point]);
    if (end.kind !== "done")
      throw new NodeFilesError(`${point} cannot be unmounted (${end.message}): end what uses it, or unmount it by hand`);
  }
  const [left] = await mountsWithin(directory);
  if (left !== undefined) throw new NodeFilesError(`${left} was mounted again: unmount it by hand`);
}

function outcomeOf(end: CommandEnd, directory: string): MountOutcome {
  if (end.kind === "failed") throw new NodeFilesError(`cannot mount at ${directory} (${end.message}): see the machine's log`);
  return end.kind === "done" ? "mounted" : "refused";
}

type CommandEnd = { readonly kind: "done" } | { readonly kind: "refused" | "failed"; readonly message: string };

const NO_RIGHT = /permission denied|operation not permitted|must be superuser|only root|unrecognized option/iu;
/** Of a capability set, from linux/capability.h: without it the kernel mounts nothing, whatever `mount` says of the reason. */
const CAP_SYS_ADMIN = 1n << 21n;

/** By the shell; what does not succeed there is done once more by itself, and that is what counts. */
async function run(command: "mount" | "umount", args: readonly string[]): Promise<CommandEnd> {
  const startedMs = performance.now();
  if ((await shell.run(command, args, COMMAND_MS)) === 0) return { kind: "done" };
  if (performance.now() - startedMs >= COMMAND_MS) return { kind: "failed", message: `no end within ${COMMAND_MS / 1000} s` };
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
