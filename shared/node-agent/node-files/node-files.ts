/** NodeFiles on this machine's own file systems. Every path is built in paths.ts; a failure leaves through errors.ts. */
import { randomBytes } from "node:crypto";
import { closeSync, constants, existsSync, lstatSync, openSync, readSync, readdirSync } from "node:fs";
import { chmod, lstat, mkdir, open, readFile, readdir, realpath, stat, statfs, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import type { Log } from "@deltaloop/base";
import type { NodeFiles } from "../ports/node-files.ts";
import { containerLogs } from "./container-logs.ts";
import { diskUsageAtOnce } from "./disk-usage.ts";
import { explained, ifThere, ifThereNow } from "./errors.ts";
import { checkHostPath } from "./host-path.ts";
import { oneAtATime } from "./one-at-a-time.ts";
import { PRIVATE_MODE, isWithin, plainName, podPaths, within } from "./paths.ts";
import { removeTree } from "./remove-tree.ts";
import { replaceFile } from "@deltaloop/base/system";
import { makeSubPath } from "./sub-path.ts";
import { volumeUsages } from "./volume-usages.ts";
import { volumeDirectories } from "./volume-directory.ts";

const HOSTS_FILE_MODE = 0o644;
/** Whatever user a container runs as may write its last words. */
const TERMINATION_LOG_MODE = 0o666;

export interface NodeFilesOptions {
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly containerLogsDir: string;
  /** Default `/etc/resolv.conf`. */
  readonly resolvConf?: string;
  readonly log: Log;
}

export function createNodeFiles({ rootDir, podLogsDir, containerLogsDir, resolvConf, log }: NodeFilesOptions): NodeFiles {
  const root = resolve(rootDir);
  const paths = podPaths(root);
  const onRefused = warnOnce(log, root);
  const atPlace = oneAtATime();
  const usages = volumeUsages(paths);
  /** Writes that have not begun, by path. */
  const checkpoints = new Map<string, { content: () => Promise<string>; written: Promise<void> }>();
  return withExplainedFailures({
    ...volumeDirectories(paths, atPlace, onRefused),
    ...containerLogs(resolve(podLogsDir), resolve(containerLogsDir)),
    checkHostPath,
    makeSubPath: (uid, volumePath, subPath) =>
      atPlace(resolve(volumePath), () => makeSubPath(volumePath, subPath, { targets: paths.subPaths(uid), onRefused })),

    async makePodDirectories(uid) {
      for (const name of ["volumes", "plugins"]) {
        const path = join(paths.pod(uid), name);
        if (!existsSync(path)) await atPlace(path, () => mkdir(path, { recursive: true, mode: PRIVATE_MODE }));
      }
    },

    readCheckpoint: (name) => ifThere(readFile(join(root, plainName(name)), "utf8")),
    writeCheckpoint: (name, content) => {
      const path = join(root, plainName(name));
      const waiting = checkpoints.get(path);
      if (waiting !== undefined) {
        waiting.content = content;
        return waiting.written;
      }
      const next = { content, written: Promise.resolve() };
      checkpoints.set(path, next);
      next.written = atPlace(path, async () => {
        checkpoints.delete(path);
        await replaceFile(path, await next.content());
      });
      return next.written;
    },

    async diskSpace(path) {
      const [stats, place] = [await ifThere(statfs(path)), await ifThere(stat(path))];
      if (stats === undefined || place === undefined) return undefined;
      const { blocks, bavail, bfree, bsize, files, ffree } = stats;
      const bytes = { capacityBytes: blocks * bsize, availableBytes: bavail * bsize, freeBytes: bfree * bsize };
      return { ...bytes, inodes: files, inodesFree: ffree, device: place.dev };
    },

    async podDiskUsage(uid, logDirectory) {
      const logDirectoryPath = within(resolve(podLogsDir), logDirectory);
      const logs = ifThereNow(() => readdirSync(logDirectoryPath)) ?? [];
      return {
        logs: new Map(logs.map((name) => [name, diskUsageAtOnce(join(logDirectoryPath, name))])),
        hostsFile: diskUsageAtOnce(paths.hostsFile(uid)),
      };
    },

    volumeUsage: usages.volumeUsage,

    async podsWithDirectories() {
      const entries = (await ifThere(readdir(paths.pods, { withFileTypes: true }))) ?? [];
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    },

    removePodDirectory: (uid) => atPlace(paths.pod(uid), () => usages.without(uid, () => removeTree(paths.pod(uid)))),

    // Running containers have the file itself mounted: it is written in place, and only when it changes.
    async writeHostsFile(uid, content) {
      const path = paths.hostsFile(uid);
      return await atPlace(path, async () => {
        if (holds(path, Buffer.from(content))) return path;
        await mkdir(dirname(path), { recursive: true, mode: PRIVATE_MODE });
        await writeFile(path, content);
        await chmod(path, HOSTS_FILE_MODE);
        return path;
      });
    },

    readHostFile: async (which) => {
      const path = which === "hosts" ? "/etc/hosts" : (resolvConf ?? "/etc/resolv.conf");
      return (await ifThere(readFile(path, "utf8"))) ?? "";
    },

    async makeTerminationLog(uid, container) {
      const path = join(paths.terminationLogs(uid, container), randomBytes(4).toString("hex"));
      return await atPlace(path, async () => {
        await mkdir(dirname(path), { recursive: true, mode: PRIVATE_MODE });
        await writeFile(path, "", { flag: "wx" });
        await chmod(path, TERMINATION_LOG_MODE);
        return path;
      });
    },

    async readTerminationLog(path, bytesMax) {
      // Mostly its container wrote nothing. A file that is not the agent's may be on a disk that does not answer.
      const [, containers, ...names] = relative(paths.pods, path).split(sep);
      if (containers === "containers" && names.length === 2 && isEmptyFile(path)) return "";
      const directory = await ifThere(realpath(dirname(path)));
      const base = await ifThere(realpath(paths.pods));
      if (directory === undefined || base === undefined || !isWithin(base, directory)) return undefined;
      return await readEnd(join(directory, basename(path)), bytesMax);
    },
  });
}

function isEmptyFile(path: string): boolean {
  const found = ifThereNow(() => lstatSync(path));
  return found?.isFile() === true && found.size === 0;
}

/** Whether it holds just these bytes. A container may have made it as large as it likes: no more is read than that. */
function holds(path: string, bytes: Buffer): boolean {
  const found = ifThereNow(() => lstatSync(path));
  if (found?.isFile() !== true || found.size !== bytes.length) return false;
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(bytes.length);
    return readSync(file, buffer) === bytes.length && buffer.equals(bytes);
  } finally {
    closeSync(file);
  }
}

/** At most the last `bytesMax`; undefined for what is no plain file, which could keep us waiting or lead elsewhere. */
async function readEnd(path: string, bytesMax: number): Promise<string | undefined> {
  const found = await ifThere(lstat(path));
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
      log.warn("this machine allows no mounts: memory volumes are plain directories, and subPaths are mounted by their path", {
        rootDir,
      });
    warned = true;
  };
}

/** Every method, with failures as NF5 wants them. */
function withExplainedFailures(files: NodeFiles): NodeFiles {
  const wrapped = Object.entries(files).map(([name, method]: [string, (...args: never[]) => Promise<unknown>]) => [
    name,
    (...args: never[]) => explained(async () => method(...args)),
  ]);
  return Object.fromEntries(wrapped) as NodeFiles; // the same names, each with the same arguments and answer
}
