/** Implements NodeFiles on the machine's file systems. paths.ts builds all paths, and errors.ts adds advice to all errors. */
import { randomBytes } from "node:crypto";
import { closeSync, constants, existsSync, lstatSync, openSync, readSync, readdirSync } from "node:fs";
import { chmod, lstat, mkdir, open, readFile, readdir, realpath, stat, statfs, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { Log } from "@deltaloop/base";
import type { NodeFiles } from "../ports/node-files.ts";
import { containerLogs } from "./container-logs.ts";
import { diskUsageAtOnce } from "./disk-usage.ts";
import { explained, ifExists, ifExistsSync } from "./errors.ts";
import { checkHostPath } from "./host-path.ts";
import { createPathLock } from "./path-lock.ts";
import { PRIVATE_MODE, isWithin, plainName, podPaths, within } from "./paths.ts";
import { removeTree } from "./remove-tree.ts";
import { replaceFile } from "@deltaloop/base/system";
import { makeSubPath } from "./sub-path.ts";
import { volumeUsages } from "./volume-usages.ts";
import { volumeDirectories } from "./volume-directory.ts";

const HOSTS_FILE_MODE = 0o644;
/** Mode of a termination log. A container may run as any user, and writes its termination message to this file. */
const TERMINATION_LOG_MODE = 0o666;

export interface NodeFilesOptions {
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly containerLogsDir: string;
  /** Default: `/etc/resolv.conf`. */
  readonly resolvConf?: string;
  readonly log: Log;
}

export function createNodeFiles({ rootDir, podLogsDir, containerLogsDir, resolvConf, log }: NodeFilesOptions): NodeFiles {
  const root = resolve(rootDir);
  const paths = podPaths(root);
  const onRefused = warnOnce(log, root);
  const withPathLock = createPathLock();
  const usages = volumeUsages(paths);
  /** Pending writes by path. Newer content replaces the content of a pending write. */
  const checkpoints = new Map<string, { content: () => Promise<string>; written: Promise<void> }>();
  return withExplainedFailures({
    ...volumeDirectories(paths, withPathLock, onRefused),
    ...containerLogs(resolve(podLogsDir), resolve(containerLogsDir)),
    checkHostPath,
    makeSubPath: (uid, volumePath, subPath) =>
      withPathLock(resolve(volumePath), () => makeSubPath(volumePath, subPath, { targets: paths.subPaths(uid), onRefused })),

    async makePodDirectories(uid) {
      for (const name of ["volumes", "plugins"]) {
        const path = join(paths.pod(uid), name);
        if (!existsSync(path)) await withPathLock(path, () => mkdir(path, { recursive: true, mode: PRIVATE_MODE }));
      }
    },

    readCheckpoint: (name) => ifExists(readFile(join(root, plainName(name)), "utf8")),
    writeCheckpoint: (name, content) => {
      const path = join(root, plainName(name));
      const waiting = checkpoints.get(path);
      if (waiting !== undefined) {
        waiting.content = content;
        return waiting.written;
      }
      const next = { content, written: Promise.resolve() };
      checkpoints.set(path, next);
      next.written = withPathLock(path, async () => {
        checkpoints.delete(path);
        await replaceFile(path, await next.content());
      });
      return next.written;
    },

    async diskSpace(path) {
      const [stats, place] = [await ifExists(statfs(path)), await ifExists(stat(path))];
      if (stats === undefined || place === undefined) return undefined;
      const { blocks, bavail, bfree, bsize, files, ffree } = stats;
      const bytes = { capacityBytes: blocks * bsize, availableBytes: bavail * bsize, freeBytes: bfree * bsize };
      return { ...bytes, inodes: files, inodesFree: ffree, device: place.dev };
    },

    async podDiskUsage(uid, logDirectory) {
      const logDirectoryPath = within(resolve(podLogsDir), logDirectory);
      const logs = ifExistsSync(() => readdirSync(logDirectoryPath)) ?? [];
      return {
        logs: new Map(logs.map((name) => [name, diskUsageAtOnce(join(logDirectoryPath, name))])),
        hostsFile: diskUsageAtOnce(paths.hostsFile(uid)),
      };
    },

    volumeUsage: usages.volumeUsage,

    async podsWithDirectories() {
      const entries = (await ifExists(readdir(paths.pods, { withFileTypes: true }))) ?? [];
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    },

    removePodDirectory: (uid) => withPathLock(paths.pod(uid), () => usages.without(uid, () => removeTree(paths.pod(uid)))),

    // Writes the file in place, and only if it has changed, because running containers have this inode mounted.
    async writeHostsFile(uid, content) {
      const path = paths.hostsFile(uid);
      return await withPathLock(path, async () => {
        if (holds(path, Buffer.from(content))) return path;
        await mkdir(dirname(path), { recursive: true, mode: PRIVATE_MODE });
        await writeFile(path, content);
        await chmod(path, HOSTS_FILE_MODE);
        return path;
      });
    },

    readHostFile: async (which) => {
      const path = which === "hosts" ? "/etc/hosts" : (resolvConf ?? "/etc/resolv.conf");
      return (await ifExists(readFile(path, "utf8"))) ?? "";
    },

    async makeTerminationLog(uid, container) {
      const path = join(paths.terminationLogs(uid, container), randomBytes(4).toString("hex"));
      return await withPathLock(path, async () => {
        await mkdir(dirname(path), { recursive: true, mode: PRIVATE_MODE });
        await writeFile(path, "", { flag: "wx" });
        await chmod(path, TERMINATION_LOG_MODE);
        return path;
      });
    },

    async readTerminationLog(path, bytesMax) {
      // A shortcut for an empty file, because most containers write no message. Used only for the agent's own paths, because other paths
      // may be on a file system that blocks.
      const [, containers, ...names] = relative(paths.pods, path).split(sep);
      if (containers === "containers" && names.length === 2 && isEmptyFile(path)) return "";
      const directory = await ifExists(realpath(dirname(path)));
      const base = await ifExists(realpath(paths.pods));
      if (directory === undefined || base === undefined || !isWithin(base, directory)) return undefined;
      return await readEnd(join(directory, basename(path)), bytesMax);
    },
  });
}

function isEmptyFile(path: string): boolean {
  const found = ifExistsSync(() => lstatSync(path));
  return found?.isFile() === true && found.size === 0;
}

/** Whether the file has exactly this content. Reads no more than the expected length, because a container may make the file large. */
function holds(path: string, bytes: Buffer): boolean {
  const found = ifExistsSync(() => lstatSync(path));
  if (found?.isFile() !== true || found.size !== bytes.length) return false;
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(bytes.length);
    return readSync(file, buffer) === bytes.length && buffer.equals(bytes);
  } finally {
    closeSync(file);
  }
}

/**
 * Returns at most the last `bytesMax` bytes of a regular file. Returns undefined for any other file, because reading it could block or
 * leave the directory.
 */
async function readEnd(path: string, bytesMax: number): Promise<string | undefined> {
  const found = await ifExists(lstat(path));
  if (found?.isFile() !== true) return undefined;
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(bytesMax), 0, bytesMax, Math.max(0, found.size - bytesMax));
    return buffer.subarray(0, bytesRead).toString("utf8");
  } finally {
    await file.close();
  }
}

function warnOnce(log: Log, rootDir: string): () => void {
  let warned = false;
  return () => {
    if (!warned)
      log.warn("mounts are not permitted: memory-backed volumes become plain directories, and subPaths are mounted by path", {
        rootDir,
      });
    warned = true;
  };
}

/** Wraps every method, so that its errors contain advice (NF5). */
function withExplainedFailures(files: NodeFiles): NodeFiles {
  const wrapped = Object.entries(files).map(([name, method]: [string, (...args: never[]) => Promise<unknown>]) => [
    name,
    (...args: never[]) => explained(async () => method(...args)),
  ]);
  return Object.fromEntries(wrapped) as NodeFiles; // each wrapper has the name, arguments and result of its method
}
