/** The conformance suite of Cgroups (shared/node-agent/ports/cgroups.ts). */
import { basename } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { cgroupFiles } from "../../shared/node-agent/kubelet/container-manager/cgroup-files.ts";
import type { Cgroups } from "../../shared/node-agent/ports/cgroups.ts";

export interface CgroupsUnderTest {
  /** A Cgroups whose single root group does not exist yet. */
  readonly cgroups: Cgroups;
  readonly root: string;
  /** The name of a group with these path components; default: the joined path. */
  readonly at?: (...parts: readonly string[]) => string;
  /** The content of a controller's file; undefined if the group does not exist. */
  read(path: string, controller: string, file: string): Promise<string | undefined>;
  /** Starts a process in the group that runs until it is killed. Absent for adapters without processes. */
  readonly enter?: (path: string) => Promise<void>;
  close(): Promise<void>;
}

const [A, B] = ["pod0a1b2c3d-0000-4000-8000-000000000001", "pod0a1b2c3d-0000-4000-8000-000000000002"] as const;

export function cgroupsConformance(name: string, open: () => Promise<CgroupsUnderTest>): void {
  describe(`Cgroups: ${name}`, () => {
    let underTest: CgroupsUnderTest;
    const at = (...parts: readonly string[]): string => underTest.at?.(...parts) ?? [underTest.root, ...parts].join("/");
    const named = (...parts: readonly string[]): string => basename(at(...parts));
    beforeEach(async () => {
      underTest = await open();
    });
    afterEach(() => underTest.close());

    it("CG1 rejects a path outside of its root", async () => {
      const { cgroups, root } = underTest;
      const above = root.slice(0, root.lastIndexOf("/"));
      for (const path of ["/", above === "" ? "/other" : above, `${root}other`, `${root}/../x`, `${root}/a/../../x`, ""]) {
        await expect(cgroups.create(path), path).rejects.toThrow("outside the cgroup roots of this agent");
        await expect(cgroups.remove(path), path).rejects.toThrow("outside the cgroup roots of this agent");
        await expect(cgroups.kill(path), path).rejects.toThrow("outside the cgroup roots of this agent");
        await expect(cgroups.write(path, []), path).rejects.toThrow("outside the cgroup roots of this agent");
        await expect(cgroups.children(path), path).rejects.toThrow("outside the cgroup roots of this agent");
        await expect(cgroups.memory(path), path).rejects.toThrow("outside the cgroup roots of this agent");
        await expect(cgroups.exists(path), path).rejects.toThrow("outside the cgroup roots of this agent");
      }
    });

    it("CG2 creates a group and its parents, and may be called repeatedly", async () => {
      const { cgroups, root } = underTest;
      expect(await cgroups.exists(root)).toBe(false);
      await cgroups.create(at("burstable", A));
      await cgroups.create(at("burstable", A));
      for (const path of [root, at("burstable"), at("burstable", A)]) expect(await cgroups.exists(path), path).toBe(true);
      expect(await cgroups.exists(at("burstable", B))).toBe(false);
    });

    it("CG3 writes the given files with the last value of each, and leaves other groups unchanged", async () => {
      const { cgroups, read } = underTest;
      await cgroups.create(at(A));
      await cgroups.create(at(B));
      await cgroups.write(at(A), [{ controller: "pids", name: "pids.max", value: "17" }]);
      await cgroups.write(at(A), [{ controller: "pids", name: "pids.max", value: "18" }]);
      expect(await read(at(A), "pids", "pids.max")).toBe("18");
      expect(await read(at(B), "pids", "pids.max")).not.toBe("18");
    });

    it("CG3 reports the file that cannot be written, and stops", async () => {
      const { cgroups, read } = underTest;
      await cgroups.create(at(A));
      const files = [
        { controller: "none", name: "none.max", value: "1" },
        { controller: "pids", name: "pids.max", value: "19" },
      ];
      await expect(cgroups.write(at(A), files)).rejects.toThrow("none.max");
      expect(await read(at(A), "pids", "pids.max")).not.toBe("19");
      await expect(cgroups.write(at(B), [{ controller: "pids", name: "pids.max", value: "1" }])).rejects.toThrow("pids.max");
    });

    it("CG4 CG6 removes a group and its subtree, may be called repeatedly, and keeps sibling groups", async () => {
      const { cgroups, root } = underTest;
      await cgroups.create(at(A, "container"));
      await cgroups.create(at(`${A}0`));
      await cgroups.remove(at(A));
      await cgroups.remove(at(A));
      expect(await cgroups.exists(at(A))).toBe(false);
      expect(await cgroups.children(root)).toEqual([named(`${A}0`)]);
    });

    it("[node-agent 227] counts a group's processes, and returns no count for a missing group", async () => {
      const { cgroups, enter } = underTest;
      expect(await cgroups.processes(at(A))).toBeUndefined();
      await cgroups.create(at(A));
      if (enter === undefined) return;
      expect(await cgroups.processes(at(A))).toBe(0);
      await enter(at(A));
      expect(await cgroups.processes(at(A))).toBe(1);
    });

    it("[node-agent 250] reports the memory limit and usage of a group, and no usage for a missing group", async () => {
      const { cgroups, root } = underTest;
      expect(await cgroups.memory(root)).toBeUndefined();
      await cgroups.create(at(A));
      const before = await cgroups.memory(root);
      expect([before?.limitBytes, (before?.workingSetBytes ?? -1) >= 0]).toEqual([undefined, true]);
      await cgroups.write(root, cgroupFiles({ memoryBytes: 2 ** 26 }, cgroups, []));
      expect((await cgroups.memory(root))?.limitBytes).toBe(2 ** 26);
      expect((await cgroups.memory(at(A)))?.limitBytes).toBeUndefined();
    });

    it("CG6 lists the direct children, and none for a missing group", async () => {
      const { cgroups, root } = underTest;
      expect(await cgroups.children(root)).toEqual([]);
      await cgroups.create(at("besteffort", A));
      await cgroups.create(at(B));
      expect((await cgroups.children(root)).toSorted()).toEqual([named("besteffort"), named(B)].toSorted());
      await cgroups.kill(at(A));
    });

    it("CG4 CG5 keeps a group that has a process at any depth until the process is killed", async (context) => {
      const { cgroups, root, enter } = underTest;
      if (enter === undefined) return context.skip("nothing runs there");
      await cgroups.create(at(A, "container"));
      await enter(at(A, "container"));
      await expect(cgroups.remove(at(A))).rejects.toThrow("EBUSY");
      expect([await cgroups.children(root), await cgroups.children(at(A))]).toEqual([[named(A)], [named(A, "container")]]);
      await cgroups.kill(at(A));
      await cgroups.remove(at(A));
      expect(await cgroups.children(root)).toEqual([]);
    });
  });
}
