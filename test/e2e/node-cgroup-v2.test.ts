/**
 * Control groups version 2 on any host: test/conformance/cgroups.test.ts in user-mode Linux, and test/conformance/systemd-cgroups.test.ts
 * in user-mode Linux with systemd as PID 1.
 */
import { join } from "node:path";

import { expect, it } from "vitest";

import { ensureUml, runInUml, systemdMissing } from "../uml/uml.ts";

const ROOT = join(import.meta.dirname, "../..");
const TIMEOUT_MS = 90_000;

const uml = ensureUml();
const noSystemd = systemdMissing();
if ("missing" in uml) it.skip(`cgroup v2: ${uml.missing}`);
else {
  const run = async (file: string, systemd: boolean): Promise<{ readonly code: number; readonly output: string }> => {
    const script = `cd '${ROOT}' && node node_modules/vitest/vitest.mjs run --project conformance --maxWorkers 1 test/conformance/${file} --reporter verbose`;
    return await runInUml(uml.kernel, script, { timeoutMs: TIMEOUT_MS, systemd });
  };
  it(
    "[node-agent 280] CG1 CG2 CG3 CG4 CG5 CG6 hold on a kernel with cgroup v2, which accepts every limit",
    { timeout: TIMEOUT_MS },
    async () => {
      const { code, output } = await run("cgroups.test.ts", false);
      expect(output).toMatch(/✓.*Cgroups: this machine's, version 2 > CG4 CG5/u); // the suite ran and was not skipped
      expect(output).toMatch(/✓.*the kernel applies pod limits, changes to them, and their removal/u);
      expect(code, output).toBe(0);
    },
  );
  it.skipIf(noSystemd !== undefined)(
    `[node-agent 282] the same rules hold with the systemd driver, which sets the same limits${noSystemd === undefined ? "" : `: ${noSystemd}`}`,
    { timeout: TIMEOUT_MS },
    async () => {
      const { code, output } = await run("systemd-cgroups.test.ts", true);
      expect(output).toMatch(/✓.*Cgroups: systemd > CG4 CG5/u);
      expect(output).toMatch(/✓.*limits pods and QoS classes as cgroupfs does/u);
      expect(code, output).toBe(0);
    },
  );
}
