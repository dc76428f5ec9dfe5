/**
 * PodCgroups on a folder that stands for cgroupfs: the tree of a version 1 machine, one of version 2, and both drivers.
 *
 * Catches: a group outside the agent's root that is taken away; a pod of a class of service that is not found; a hierarchy forgotten.
 * That a group with processes stays is the kernel's part; here a file in it stands for them, which makes rmdir refuse as well.
 */
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createPodCgroups } from "../../shared/adapters/system/pod-cgroups.ts";

const [A, B, C] = ["0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002", "0a1b2c3d-0000-4000-8000-000000000003"];

describe("pod cgroups", () => {
  let mount = "";
  beforeEach(async () => {
    mount = await mkdtemp(join(tmpdir(), "deltaloop-cgroups-"));
  });
  afterEach(() => rm(mount, { recursive: true }));
  const make = async (...paths: readonly string[]): Promise<void> => {
    for (const path of paths) await mkdir(join(mount, path), { recursive: true });
  };
  const left = async (): Promise<readonly string[]> => {
    const entries = await readdir(mount, { recursive: true });
    return entries.filter((path) => /pod[0-9a-f]/u.test(path.split("/").at(-1) ?? "")).toSorted();
  };

  it("CG2 finds and removes a pod's groups in every hierarchy of version 1, containers' groups first", async () => {
    await make(`memory/own/kubepods/besteffort/pod${A}/container`, `cpu/own/kubepods/besteffort/pod${A}`, `memory/own/kubepods/pod${B}`);
    const cgroups = createPodCgroups({ cgroupRoot: "/own", mount });
    expect((await cgroups.uids()).toSorted()).toEqual([A, B]);
    await cgroups.remove(A ?? "");
    expect(await left()).toEqual([`memory/own/kubepods/pod${B}`]);
    await cgroups.remove(A ?? ""); // CG3
  });

  it("CG1 looks at nothing outside its root", async () => {
    await make(`memory/kubepods/pod${A}`, `memory/other/kubepods/pod${B}`, `memory/own/kubepods/pod${C}`, "memory/own/podless");
    const cgroups = createPodCgroups({ cgroupRoot: "/own", mount });
    expect(await cgroups.uids()).toEqual([C]);
    await cgroups.remove(A ?? "");
    await cgroups.remove(B ?? "");
    expect(await left()).toHaveLength(3);
  });

  it("CG2 leaves a group that cannot be removed, and everything above it", async () => {
    await make(`memory/kubepods/burstable/pod${A}/container`);
    await writeFile(join(mount, `memory/kubepods/burstable/pod${A}/container/process`), "");
    const cgroups = createPodCgroups({ cgroupRoot: "/", mount });
    await cgroups.remove(A ?? "");
    expect(await cgroups.uids()).toEqual([A]);
  });

  it("knows the slices of the systemd driver, on version 2", async () => {
    await writeFile(join(mount, "cgroup.controllers"), "memory\n");
    const slice = `kubepods-besteffort-pod${A?.replaceAll("-", "_")}.slice`;
    await make(`kubepods.slice/kubepods-besteffort.slice/${slice}`);
    const cgroups = createPodCgroups({ cgroupRoot: "/", mount });
    expect(await cgroups.uids()).toEqual([A]);
    await cgroups.remove(A ?? "");
    expect(await left()).toEqual([]);
  });
});
