/**
 * Crash safety of user controllers on a real API server: processes that are killed before and after calls, lost responses, an emptied
 * Store, a late watch, and concurrent writers. Runs a sample; `npm run own-crashes` runs every fault point and random ones.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { contestedTrials, everyPoint, plainTrials } from "../harness/own/matrix.ts";
import { prepareCluster, runTrials } from "../harness/own/trials.ts";
import type { Outcome } from "../harness/own/trials.ts";
import { startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";

/** Tests every nth fault point, so that each example, call and kind of fault occurs. */
const SAMPLED = 5;
/** Times in ms at which the Store is emptied. A Store that was emptied three times within ten minutes would stop giving out keys. */
const EMPTIED_MS = [500, 2_000];
const LATE_MS = 60_000;

await whereRealPartsAre("crash safety of user controllers", () => {
  let cluster: Cluster;
  let plain: Outcome;
  beforeAll(async () => {
    cluster = await startCluster({ machines: false, garbageCollection: false });
    await prepareCluster(cluster);
    plain = await runTrials(cluster, { trials: plainTrials() });
  });
  afterAll(async () => {
    await cluster?.stop();
  });

  it("reaches the final state of each stage without faults", () => {
    expect(plain.failures).toEqual([]);
    expect([...plain.calls.values()].every((calls) => calls.length > 0)).toBe(true);
  });

  it("reaches the same state after a crash or a lost response at a sample of calls, with concurrent writers", async () => {
    const trials = everyPoint(plain).filter((_, index) => index % SAMPLED === 0);
    const { failures, faultsOccurred } = await runTrials(cluster, { trials: [...trials, ...contestedTrials("other")] });
    expect(failures).toEqual([]);
    // The last sync of a history, which writes nothing, may not occur, and neither does its fault.
    expect(faultsOccurred).toBeGreaterThanOrEqual(trials.length * 0.9);
  });

  it("reaches the same state although the Store is emptied twice", async () => {
    const { failures } = await runTrials(cluster, {
      trials: [...plainTrials("emptied"), ...contestedTrials("emptied")],
      lossesMs: EMPTIED_MS,
    });
    expect(failures).toEqual([]);
  });

  it("reaches the same state although the watch is a minute late", async () => {
    const trials = [...plainTrials("late"), ...contestedTrials("late")];
    const { failures } = await runTrials(cluster, { trials, lateMs: LATE_MS, stages: 1, timesFaster: 10 });
    expect(failures).toEqual([]);
  });
});
