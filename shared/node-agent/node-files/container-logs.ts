/** The directories and files to which the runtime writes container logs (node-agent §7.8, §16.3). */
import { lstat, mkdir, readdir, readlink, stat, symlink, unlink } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { NodeFiles } from "../ports/node-files.ts";
import { ifExists } from "./errors.ts";
import { isWithin, plainName, within } from "./paths.ts";
import { removeTree } from "./remove-tree.ts";
import { rotateLog } from "./rotate-log.ts";
import { tailLog } from "./tail-log.ts";

const LOG_DIRECTORY_MODE = 0o755;
const NUMBERED_LOG = /^(\d+)\.log(?:\..*)?$/u;

export type ContainerLogs = Pick<
  NodeFiles,
  | "makeLogDirectory"
  | "highestLogNumber"
  | "tailLog"
  | "linkContainerLog"
  | "removeContainerLogs"
  | "rotateLog"
  | "logDirectories"
  | "removeLogDirectory"
  | "removeDeadLinks"
>;

/** Source: pkg/kubelet/kuberuntime legacy.go, kuberuntime_container.go, kuberuntime_gc.go; pkg/kubelet/logs Clean. */
export function containerLogs(podLogsDir: string, containerLogsDir: string): ContainerLogs {
  return {
    async makeLogDirectory(directory) {
      const path = within(podLogsDir, directory);
      await mkdir(path, { recursive: true, mode: LOG_DIRECTORY_MODE });
      return path;
    },

    async highestLogNumber(directory) {
      const names = (await ifExists(readdir(within(podLogsDir, directory)))) ?? [];
      const numbers = names.flatMap((name) => NUMBERED_LOG.exec(name)?.[1] ?? []).map(Number);
      return numbers.length === 0 ? undefined : Math.max(...numbers);
    },

    tailLog: async (logPath, limits) => (isOurs(logPath) ? tailLog(resolve(podLogsDir, logPath), limits) : ""),

    async linkContainerLog(name, logPath) {
      const target = within(podLogsDir, logPath);
      const link = join(containerLogsDir, plainName(name));
      if ((await ifExists(stat(target))) === undefined) return;
      await mkdir(containerLogsDir, { recursive: true, mode: LOG_DIRECTORY_MODE });
      if ((await linkTarget(link)) === target) return;
      await ifExists(unlink(link));
      await symlink(target, link);
    },

    rotateLog: async (logPath, limits) => (isOurs(logPath) ? await rotateLog(resolve(podLogsDir, logPath), limits) : undefined),

    async removeContainerLogs(logPath, linkName) {
      // A container that was created with another --pod-logs-dir is still garbage-collected, but its log is kept.
      if (!isOurs(logPath)) return;
      const path = resolve(podLogsDir, logPath);
      const siblings = (await ifExists(readdir(dirname(path)))) ?? [];
      const own = siblings.filter((name) => name === basename(path) || name.startsWith(`${basename(path)}.`));
      for (const name of own) await ifExists(unlink(join(dirname(path), name)));
      const link = join(containerLogsDir, plainName(linkName));
      if ((await linkTarget(link)) === path) await ifExists(unlink(link));
    },

    async logDirectories() {
      const entries = (await ifExists(readdir(podLogsDir, { withFileTypes: true }))) ?? [];
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    },

    removeLogDirectory: (directory) => removeTree(within(podLogsDir, directory)),

    async removeDeadLinks() {
      for (const name of (await ifExists(readdir(containerLogsDir))) ?? []) {
        const link = join(containerLogsDir, name);
        if ((await ifExists(stat(link))) === undefined && (await linkTarget(link)) !== undefined) await ifExists(unlink(link));
      }
    },
  };

  function isOurs(logPath: string): boolean {
    const path = resolve(podLogsDir, logPath);
    return path !== resolve(podLogsDir) && isWithin(resolve(podLogsDir), path);
  }
}

async function linkTarget(path: string): Promise<string | undefined> {
  const stats = await ifExists(lstat(path));
  return stats?.isSymbolicLink() === true ? ifExists(readlink(path)) : undefined;
}
