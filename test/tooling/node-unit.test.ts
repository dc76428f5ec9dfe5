/** The node agent's systemd unit. */
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Command } from "commander";
import { describe, expect, it } from "vitest";

import { registerNode } from "../../cli/node.ts";
import { NODE_UNIT, unitValues } from "../harness/node-processes/unit.ts";

/** Settings that give a service its own mount namespace. Source: systemd 252, exec_needs_mount_namespace; systemd.exec(5). */
const OWN_MOUNTS =
  /^(?:Protect(?:System|Home|Proc|KernelTunables|KernelModules|KernelLogs|ControlGroups)|Private(?:Tmp|Devices|Mounts|IPC|Users)|(?:ReadOnly|ReadWrite|Inaccessible|Exec|NoExec)Paths|Bind(?:ReadOnly)?Paths|TemporaryFileSystem|Root(?:Directory|Image)|MountFlags|MountImages|ExtensionImages|ProcSubset|DynamicUser)=/;

describe("the node agent's unit", () => {
  const text = readFileSync(NODE_UNIT, "utf8");

  const systemd = spawnSync("systemd-analyze", ["--version"]).status === 0;
  it.skipIf(!systemd)(systemd ? "is valid for systemd" : "is valid for systemd (skipped: there is no systemd-analyze)", () => {
    const folder = mkdtempSync(join(tmpdir(), "deltaloop-unit-"));
    try {
      const program = join(folder, "deltaloop");
      writeFileSync(program, "");
      chmodSync(program, 0o755);
      const unit = join(folder, "deltaloop-node.service");
      writeFileSync(unit, text.replace("/usr/local/bin/deltaloop", program));
      const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", unit], { encoding: "utf8" });
      // systemd only reports unknown settings.
      expect({ status, said: (stdout + stderr).split("\n").filter((line) => line.includes("deltaloop-node.service")) }).toEqual({
        status: 0,
        said: [],
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("the unit uses existing flags of the agent", () => {
    const program = new Command();
    registerNode(program);
    const [node] = program.commands;
    const known = node?.options.map(({ long }) => long) ?? [];
    const flags = [...text.matchAll(/(?<=[ =])--[a-z-]+/g)].map(([flag]) => flag);
    expect(flags).toContain("--kubeconfig");
    expect(flags).toContain("--cluster-dns");
    expect(flags.filter((flag) => !known.includes(flag))).toEqual([]);
  });

  it("the unit is sandboxed, except where that would hide the agent's mounts from the runtime", () => {
    expect(unitValues("CapabilityBoundingSet")).toContain("CAP_SYS_ADMIN");
    expect(unitValues("NoNewPrivileges")).toEqual(["yes"]);
    expect(text.split("\n").filter((line) => OWN_MOUNTS.test(line))).toEqual([]);
  });
});
