/**
 * Losses of data in Redis (informer §11.7, §20): each loss occurs in the middle of three rollouts, on a real control plane and real
 * redis-servers, with watcher and functions in separate processes.
 */
import { afterAll, beforeAll, describe, it } from "vitest";

import { whereRealPartsAre } from "../support/e2e.ts";
import { startLossRig } from "../support/loss-rig.ts";
import type { LossRig } from "../support/loss-rig.ts";
import { REDIS_FAULTS } from "../support/redis-faults.ts";

await whereRealPartsAre("what Redis may lose", () => {
  describe("[replicaset P11] three rollouts complete after Redis is", () => {
    let rig: LossRig;
    beforeAll(async () => {
      rig = await startLossRig();
    });
    afterAll(async () => await rig?.stop());

    it("not disturbed", async () => await rig.settles("nothing at all", () => Promise.resolve()));

    for (const { name, strike, pauseMsMax } of REDIS_FAULTS)
      it(name, async () => await rig.settles(name, ({ redis }) => strike(redis), pauseMsMax === undefined ? {} : { pauseMsMax }));
  });
});
