/**
 * Runs the same scripts with upstream's controllers and ours, each on its own API server: their writes must be at the same virtual second,
 * and the final states must be equal.
 */
import { afterAll, describe, expect, it } from "vitest";

import { judgeProgram } from "./build.ts";
import { startJudge } from "./judge.ts";
import { playSequence } from "./sequence/play.ts";
import { reportOf } from "./sequence/report.ts";
import { LIVES } from "./sequence/script.ts";

const SEEDS = { deployment: 25, replicas: 40, losses: 10, races: 20 } as const;
const built = await judgeProgram();
const missing = "missing" in built ? built.missing : undefined;

describe.skipIf(missing !== undefined)(
  `writes in random histories equal those of upstream's controllers${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    const judge = "program" in built ? startJudge(built.program) : undefined;
    afterAll(() => judge?.close());

    it.each(LIVES)("%s: deltaloop and upstream make the same writes at the same times", { timeout: 300_000 }, async (life) => {
      if (judge === undefined) throw new Error("skipped");
      const reports: string[] = [];
      let writes = 0;
      for (let seed = 1; seed <= SEEDS[life]; seed++) {
        const sequence = await playSequence(life, seed, judge);
        writes += sequence.upstream.lines.length;
        if (sequence.differences.length > 0) reports.push(reportOf(life, seed, sequence));
      }
      expect(reports.join("\n")).toBe("");
      expect(writes).toBeGreaterThan(SEEDS[life] * 10);
    });
  },
);
