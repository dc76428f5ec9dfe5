/** Control groups of this machine below a separate root group, for tests. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { createCgroups } from "../../shared/node-agent/system/cgroups.ts";
import type { Cgroups } from "../../shared/node-agent/ports/cgroups.ts";
import type { CgroupsUnderTest } from "./cgroups.ts";

export const MOUNT = "/sys/fs/cgroup";
export const version = existsSync(join(MOUNT, "cgroup.controllers")) ? 2 : 1;

export interface KernelCgroupOptions {
  readonly open?: (roots: readonly string[]) => Cgroups | Promise<Cgroups>;
  /** The path of a group below a parent with that name; default: the joined names. */
  readonly pathOf?: (parts: readonly string[]) => string;
}

export async function openKernelCgroups({
  open = (roots) => createCgroups({ roots }),
  pathOf = (parts) => `/${parts.join("/")}`,
}: KernelCgroupOptions = {}): Promise<CgroupsUnderTest & { readonly at: (...parts: readonly string[]) => string }> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-cgroups-"));
  const own = basename(folder);
  const at = (...parts: readonly string[]): string => pathOf([own, "kubepods", ...parts]);
  const root = at();
  const children: ChildProcess[] = [];
  const cgroups = await open([root]);
  const base = (controller: string): string => (version === 2 ? MOUNT : join(MOUNT, controller));
  return {
    cgroups,
    root,
    at,
    read: async (path, controller, file) => (await readFile(join(base(controller), path, file), "utf8").catch(() => undefined))?.trim(),
    async enter(path) {
      const child = spawn("/bin/sleep", ["1000"], { stdio: "ignore" });
      children.push(child);
      for (const hierarchy of version === 2 ? [""] : ["cpuset", "cpu", "memory", "pids"])
        await writeFile(join(base(hierarchy), path, "cgroup.procs"), String(child.pid));
    },
    async close() {
      for (const child of children) {
        if (child.exitCode !== null || child.signalCode !== null) continue;
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      await cgroups.remove(root);
      for (const hierarchy of version === 2 ? [""] : await readdir(MOUNT))
        await rmdir(join(base(hierarchy), pathOf([own]))).catch(() => undefined);
      await rm(folder, { recursive: true });
    },
  };
}
