/** The clock of a real Redis jumps by five minutes in the middle of a rollout, in both directions. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { deltaloop, measured, OWN_NAMESPACE, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { momentsOf, most, recordHistory } from "../support/history.ts";
import { ensureCompiler, startRedisWithClock } from "../support/redis-clock.ts";
import type { RedisWithClock } from "../support/redis-clock.ts";

const READY_MS_MAX = 90_000;
const CONVERGED_S_MAX = 15;
const [REPLICAS, SURGE] = [6, 2];
/** Offsets of the Store's clock in seconds, applied one after the other. */
const OFFSETS = [300, 0, -300, 0];

const missing = ensureCompiler();
await whereRealPartsAre(
  "a Redis whose clock jumps",
  () => {
    describe("rollouts while the Store's clock jumps", () => {
      let cluster: Cluster;
      let redis: RedisWithClock;
      let dev: Running;
      beforeAll(async () => {
        [cluster, redis] = await Promise.all([startCluster(), startRedisWithClock()]);
        const kubeconfig = ["--kubeconfig", cluster.rolesKubeconfig, "--lease-namespace", OWN_NAMESPACE];
        dev = deltaloop(["dev", "--act", "--redis", redis.url, ...kubeconfig]);
        await dev.line("ready:", READY_MS_MAX);
        const container = { name: "main", image: "shop:0" };
        const template = { metadata: { labels: { app: "web" } }, spec: { containers: [container], terminationGracePeriodSeconds: 1 } };
        const spec = { replicas: REPLICAS, selector: { matchLabels: { app: "web" } }, template };
        await cluster.apply({ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", namespace: "default" }, spec });
        await cluster.rolledOut("default", "web");
      });
      afterAll(async () => {
        await dev?.stop();
        await redis?.stop();
        await cluster?.stop();
      });

      it.each(OFFSETS.map((offset, index) => ({ offset, before: OFFSETS[index - 1] ?? 0 })))(
        `a jump from $before s to $offset s delays a rollout by less than ${CONVERGED_S_MAX} s and creates no surplus pod`,
        async ({ offset }) => {
          const history = await recordHistory(cluster.client, "default");
          await cluster.kubectl("set", "image", "deployment/web", `main=shop:${Date.now()}`);
          await new Promise((resolve) => setTimeout(resolve, 300));
          const from = performance.now();
          redis.setOffset(offset);
          await cluster.rolledOut("default", "web");
          await cluster.kubectl("scale", "deployment/web", `--replicas=${REPLICAS + 1}`);
          await cluster.kubectl("scale", "deployment/web", `--replicas=${REPLICAS}`);
          await cluster.rolledOut("default", "web");
          const seconds = (performance.now() - from) / 1_000;
          measured(`the Store's clock at ${offset} s: settled after ${seconds.toFixed(1)} s`);
          await history.stop();
          const moments = momentsOf(history.changes(), "web");
          expect(most(moments, ({ active }) => active)).toBeLessThanOrEqual(REPLICAS + 1 + SURGE);
          expect(moments.flatMap(({ overshot }) => overshot)).toEqual([]);
          expect(seconds).toBeLessThan(CONVERGED_S_MAX);
        },
      );
    });
  },
  missing === undefined ? {} : { missing },
);
