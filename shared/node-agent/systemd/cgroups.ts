/**
 * Implements Cgroups with the systemd driver: a group is a slice that systemd creates, limits and stops. Limits are set as systemd
 * properties and are also written to cgroupfs. Files alone would last only until systemd applies the slice again; settings without a
 * property exist only in files.
 *
 * Source: github.com/opencontainers/cgroups systemd/v1.go, v2.go, which the kubelet uses with this driver.
 */
import { posix } from "node:path";
import { messageOf } from "@deltaloop/kube/objects";
import type { Cgroups } from "../ports/cgroups.ts";
import type { Systemd } from "./systemd.ts";
import { unitProperties } from "./unit-properties.ts";
import type { UnitProperty } from "./unit-properties.ts";

const SUFFIX = ".slice";

/** Paths consist of slice names, such as `/kubepods.slice/kubepods-burstable.slice`; `roots` must equal those of `cgroupfs`. */
export function createSystemdCgroups(cgroupfs: Cgroups, roots: readonly string[], systemd: Systemd): Cgroups {
  const rootOf = (path: string): string => roots.find((root) => path === root || path.startsWith(`${root}/`)) ?? path;
  return {
    ...cgroupfs,
    async create(path) {
      await cgroupfs.exists(path); // rejects a path outside the roots (CG1)
      for (const level of levels(rootOf(path), path)) {
        if (level !== path && (await cgroupfs.exists(level))) continue;
        await systemd.startTransient(unitOf(level), sliceProperties(level, cgroupfs.version));
      }
      await cgroupfs.create(path);
    },
    async write(path, files) {
      // systemd applies either all properties or none, and also accepts properties for a slice that does not exist.
      const lacking = files.find(({ controller, optional }) => optional !== true && !cgroupfs.controllers.includes(controller));
      const first = lacking ?? files[0];
      if (first !== undefined && (lacking !== undefined || !(await cgroupfs.exists(path))))
        throw new Error(
          `failed to set ${first.name} of ${path}: ${lacking === undefined ? "no such group" : `no controller ${lacking.controller}`}`,
        );
      const { properties, files: agreed } = unitProperties(files);
      if (properties.length > 0)
        await systemd.setProperties(unitOf(path), properties).catch((error: unknown) => {
          const names = files.map(({ name }) => name).join(", ");
          throw new Error(`systemd failed to set ${names} of ${path}: ${messageOf(error)}`, { cause: error });
        });
      await cgroupfs.write(path, agreed);
    },
    async remove(path) {
      await cgroupfs.exists(path); // see create
      await systemd.stop(unitOf(path));
      await cgroupfs.remove(path);
    },
  };
}

/** Returns the paths of all levels, from the root down to `path`. */
function levels(root: string, path: string): readonly string[] {
  const below = path.slice(root.length).split("/").slice(1);
  return [root, ...below.map((_part, index) => `${root}/${below.slice(0, index + 1).join("/")}`)];
}

/**
 * Enables accounting from the start, because the kernel does not count earlier usage. Source: github.com/opencontainers/cgroups
 * systemd/v2.go Apply.
 */
function sliceProperties(path: string, version: 1 | 2): readonly UnitProperty[] {
  const parent = posix.dirname(path);
  return [
    ["Description", ["s", `deltaloop pods below ${posix.basename(path)}`]],
    ["Wants", ["as", [parent === "/" ? "-.slice" : unitOf(parent)]]],
    ...["MemoryAccounting", "CPUAccounting", version === 2 ? "IOAccounting" : "BlockIOAccounting", "TasksAccounting"].map(
      (name): UnitProperty => [name, ["b", true]],
    ),
    ["DefaultDependencies", ["b", false]],
  ];
}

function unitOf(path: string): string {
  const name = posix.basename(path);
  if (!name.endsWith(SUFFIX)) throw new Error(`${path} is not a slice`);
  return name;
}
