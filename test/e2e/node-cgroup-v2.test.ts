/**
 * Control groups of version 2 on a kernel that has them, wherever this runs: test/conformance/cgroups.test.ts in user-mode Linux.
 *
 * Catches: a file or a value that the kernel refuses or reads otherwise; controllers that a parent does not hand on; a group that
 * stays; what a folder that stands for cgroupfs takes, and cgroupfs does not.
 */
import { join } from "node:path";

import { expect, it } from "vitest";

import { ensureUml, runInUml } from "../uml/uml.ts";

const ROOT = join(import.meta.dirname, "../..");
const TIMEOUT_MS = 90_000;

const uml = ensureUml();
if ("missing" in uml) it.skip(`control groups of version 2: ${uml.missing}`);
else
  it(
    "[node-agent 280] CG1 CG2 CG3 CG4 CG5 CG6 hold on a kernel of version 2, and it takes every limit",
    { timeout: TIMEOUT_MS },
    async () => {
      const script = `cd '${ROOT}' && node node_modules/vitest/vitest.mjs run --project conformance --maxWorkers 1 test/conformance/cgroups.test.ts --reporter verbose`;
      const { code, output } = await runInUml(uml.kernel, script, TIMEOUT_MS);
      expect(output).toMatch(/✓.*Cgroups: this machine's, version 2 > CG4 CG5/u); // run, not skipped
      expect(output).toMatch(/✓.*kernel reads what pods are bounded by/u);
      expect(code, output).toBe(0);
    },
  );
