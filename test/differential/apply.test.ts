/**
 * Server-side apply: random writes of several managers to upstream's field manager and ours, and random CustomResourceDefinition schemas
 * with both implementations of pruning, defaulting and type conversion.
 */
import { afterAll, describe, expect, it } from "vitest";
import { firstDifference, playOurs, reportOf } from "./apply/compare.ts";
import { admitOurs, isSame, randomCustom } from "./apply/custom.ts";
import { fieldManagerProgram, startCustoms, startFieldManager } from "./apply/upstream.ts";

const SEQUENCES = 2000;
/** The first seed of a run; it changes every second. */
const FIRST = 10_000_000 + (Math.floor(Date.now() / 1000) % 1_000_000) * SEQUENCES;
const built = await fieldManagerProgram();
const missing = "missing" in built ? built.missing : undefined;
if (missing !== undefined) process.stderr.write(`!!!!  upstream's field manager cannot run: ${missing}\n`);

describe.skipIf(missing !== undefined)(
  `writes have the result of upstream's field manager${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    const upstream = "program" in built ? startFieldManager(built.program) : undefined;
    afterAll(() => upstream?.close());

    it(`in ${SEQUENCES} sequences from seed ${FIRST} on`, { timeout: 300_000 }, async () => {
      if (upstream === undefined) throw new Error("skipped");
      const reports: string[] = [];
      let conflicts = 0;
      for (let seed = FIRST; seed < FIRST + SEQUENCES; seed += 1) {
        const ours = playOurs(seed);
        const theirs = await upstream.play(ours);
        conflicts += theirs.filter(({ causes }) => causes !== undefined).length;
        const at = firstDifference(ours, theirs);
        if (at !== undefined) reports.push(reportOf(seed, ours, theirs, at));
      }
      expect(reports.join("\n")).toBe("");
      expect(conflicts).toBeGreaterThan(SEQUENCES / 3);
    });
  },
);

describe.skipIf(missing !== undefined)("objects of CustomResourceDefinitions are pruned, defaulted and typed as upstream does", () => {
  const upstream = "program" in built ? startCustoms(built.program) : undefined;
  afterAll(() => upstream?.close());

  it(`with ${SEQUENCES} schemas from seed ${FIRST} on`, { timeout: 300_000 }, async () => {
    if (upstream === undefined) throw new Error("skipped");
    const different: object[] = [];
    let typedOnes = 0;
    for (let seed = FIRST; seed < FIRST + SEQUENCES; seed += 1) {
      const custom = randomCustom(seed);
      const [ours, theirs] = [admitOurs(custom), await upstream.admit(custom)];
      if (theirs.fields !== undefined) typedOnes += 1;
      if (!isSame(ours, theirs)) different.push({ seed, ...custom, ours, theirs });
    }
    expect(different).toEqual([]);
    expect(typedOnes).toBeGreaterThan(SEQUENCES / 2);
  });
});
