/**
 * Cgroups where systemd looks after all of them: a group is a slice, made, bounded and ended by systemd, and what systemd does not know
 * of is done on cgroupfs beside it. Files alone would last until systemd looks at the slice next.
 *
 * Source: github.com/opencontainers/cgroups systemd/v1.go, v2.go, which is what a kubelet with this driver does it by.
 */
import { posix } from "node:path";
import { messageOf } from "@deltaloop/kube/objects";
import type { Cgroups } from "../ports/cgroups.ts";
import type { Systemd } from "./systemd.ts";
import { unitProperties } from "./unit-properties.ts";
import type { UnitProperty } from "./unit-properties.ts";

const SUFFIX = ".slice";

/** Paths are of slices, `/kubepods.slice/kubepods-burstable.slice`; `roots` are those of `cgroupfs`. */
export function createSystemdCgroups(cgroupfs: Cgroups, roots: readonly string[], systemd: Systemd): Cgroups {
  const rootOf = (path: string): string => roots.find((root) => path === root || path.startsWith(`${root}/`)) ?? path;
  return {
    ...cgroupfs,
    async create(path) {
      await cgroupfs.exists(path); // one that is not ours is refused (CG1)
      for (const level of levels(rootOf(path), path)) {
        if (level !== path && (await cgroupfs.exists(level))) continue;
        await systemd.startTransient(unitOf(level), sliceProperties(level, cgroupfs.version));
      }
      await cgroupfs.create(path);
    },
    async write(path, files) {
      // systemd takes all or nothing, and begins to describe a slice that is not there.
      const lacking = files.find(({ controller, optional }) => optional !== true && !cgroupfs.controllers.includes(controller));
      const first = lacking ?? files[0];
      if (first !== undefined && (lacking !== undefined || !(await cgroupfs.exists(path))))
        throw new Error(
          `${first.name} of ${path}: there is no ${lacking === undefined ? "such group" : `controller ${lacking.controller}`}`,
        );
      const { properties, files: agreed } = unitProperties(files);
      if (properties.length > 0)
        await systemd.setProperties(unitOf(path), properties).catch((error: unknown) => {
          const names = files.map(({ name }) => name).join(", ");
          throw new Error(`${names} of ${path}: systemd did not take them: ${messageOf(error)}`, { cause: error });
        });
      await cgroupfs.write(path, agreed);
    },
    async remove(path) {
      await cgroupfs.exists(path); // as in create
      await systemd.stop(unitOf(path));
      await cgroupfs.remove(path);
    },
  };
}

/** From the root down to `path`. */
function levels(root: string, path: string): readonly string[] {
  const below = path.slice(root.length).split("/").slice(1);
  return [root, ...below.map((_part, index) => `${root}/${below.slice(0, index + 1).join("/")}`)];
}

/** Everything is counted from the beginning, as the kernel does not count what a group had before. Source: github.com/opencontainers/cgroups systemd/v2.go Apply. */
function sliceProperties(path: string, version: 1 | 2): readonly UnitProperty[] {
  const parent = posix.dirname(path);
  return [
    ["Description", ["s", `pods of deltaloop below ${posix.basename(path)}`]],
    ["Wants", ["as", [parent === "/" ? "-.slice" : unitOf(parent)]]],
    ...["MemoryAccounting", "CPUAccounting", version === 2 ? "IOAccounting" : "BlockIOAccounting", "TasksAccounting"].map(
      (name): UnitProperty => [name, ["b", true]],
    ),
    ["DefaultDependencies", ["b", false]],
  ];
}

function unitOf(path: string): string {
  const name = posix.basename(path);
  if (!name.endsWith(SUFFIX)) throw new Error(`${path} is no slice`);
  return name;
}
