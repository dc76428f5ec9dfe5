/**
 * Upstream's own e2e tests of Deployments, ReplicaSets and ReplicationControllers (18 conformance tests and 4 others), on a real control
 * plane where `deltaloop dev --act` replaces upstream's three controllers.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import type { UpstreamTests } from "../upstream/program.ts";
import { LEFT_OUT, TESTS } from "../upstream/tests.ts";

const built = await upstreamTests();
if ("missing" in built) await whereRealPartsAre("upstream's own tests", () => undefined, built);
else await whereRealPartsAre("upstream's own tests", () => suite(built));

function suite(upstream: UpstreamTests): void {
  it("every test of upstream either runs here or is listed as needing more than scripted nodes", async () => {
    const known = [...TESTS, ...LEFT_OUT.map(({ name }) => name)];
    expect((await upstream.names()).toSorted()).toEqual(known.toSorted());
  });

  describe.concurrent("upstream's own tests pass with deltaloop's controllers", () => {
    let cluster: Cluster;
    let dev: Running;
    beforeAll(async () => {
      cluster = await startCluster();
      dev = await startDev(cluster);
    });
    afterAll(async () => {
      await dev?.stop();
      await cluster?.stop();
    });

    for (const name of TESTS)
      it(name, async ({ signal }) => {
        await expect(upstream.run(name, { kubeconfig: cluster.plane.adminKubeconfig, signal })).resolves.toBeUndefined();
      });
  });
}
