/** PodCgroups on cgroupfs: directories under a mount, of which version 1 has one per hierarchy. */
import { readdir, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { PodCgroups } from "../../ports/pod-cgroups.ts";

const MOUNT = "/sys/fs/cgroup";
/** `pod<uid>` and, with the systemd driver, `kubepods-besteffort-pod<uid with _>.slice`. */
const OF_POD = /^(?:kubepods(?:-\w+)?-)?pod([0-9a-f][0-9a-f_-]{7,})(?:\.slice)?$/u;
/** Pods stand one level deeper where a class of service has a group of its own. */
const DEPTH_MAX = 2;

export interface PodCgroupOptions {
  /** As in NodeOptions. */
  readonly cgroupRoot: string;
  /** Default: where every Linux has it. */
  readonly mount?: string;
}

export function createPodCgroups({ cgroupRoot, mount = MOUNT }: PodCgroupOptions): PodCgroups {
  return {
    async uids() {
      const found = await Promise.all((await hierarchies(mount)).map((one) => podGroups(kubepods(one, cgroupRoot))));
      return [...new Set(found.flat().map(({ uid }) => uid))];
    },
    async remove(uid) {
      for (const hierarchy of await hierarchies(mount))
        for (const group of await podGroups(kubepods(hierarchy, cgroupRoot))) if (group.uid === uid) await removeTree(group.path);
    },
  };
}

/** Version 2 is one hierarchy; version 1 has one per controller, and links from the names of joined ones. */
async function hierarchies(mount: string): Promise<readonly string[]> {
  if ((await stat(join(mount, "cgroup.controllers")).catch(() => undefined)) !== undefined) return [mount];
  const entries = await readdir(mount, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(mount, name));
}

function kubepods(hierarchy: string, cgroupRoot: string): readonly string[] {
  return ["kubepods", "kubepods.slice"].map((name) => join(hierarchy, cgroupRoot, name));
}

async function podGroups(folders: readonly string[], depth = 1): Promise<readonly { readonly uid: string; readonly path: string }[]> {
  const groups: { uid: string; path: string }[] = [];
  for (const folder of folders)
    for (const name of await subfolders(folder)) {
      const uid = OF_POD.exec(name)?.[1];
      const path = join(folder, name);
      if (uid !== undefined) groups.push({ uid: uid.replaceAll("_", "-"), path });
      else if (depth < DEPTH_MAX) groups.push(...(await podGroups([path], depth + 1)));
    }
  return groups;
}

async function subfolders(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** A group is removed by rmdir, although it holds files; one with processes refuses, and so does everything above it. */
async function removeTree(path: string): Promise<void> {
  for (const name of await subfolders(path)) await removeTree(join(path, name));
  await rmdir(path).catch(() => undefined);
}
