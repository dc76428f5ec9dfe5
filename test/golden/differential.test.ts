// Where there is no Go: ours syncs random objects, and does what upstream's controllers did when they were asked to (test/differential,
// whose known.ts says what may differ, and no more). Would catch: any difference in decisions, bodies, texts or their order.
import { describe, expect, it } from "vitest";

import { CONTROLLERS } from "../../shared/api/resources.ts";
import { readCorpus } from "../differential/corpus.ts";
import { playLife, recalling } from "../differential/life.ts";
import { reportOf } from "../differential/report.ts";

const corpus = await readCorpus();

describe("ours does what upstream was recorded to do", () => {
  it.for(CONTROLLERS)("%s", async (controller) => {
    const reports: string[] = [];
    let syncs = 0;
    for (const { seed, outcomes } of corpus.filter((life) => life.controller === controller)) {
      for await (const judged of playLife(controller, seed, recalling(outcomes))) {
        syncs++;
        if (judged.verdict.kind === "differs") reports.push(`seed ${seed}, ${reportOf(judged)}`);
      }
    }
    expect(reports.join("\n")).toBe("");
    expect(syncs).toBeGreaterThan(80);
  });
});
