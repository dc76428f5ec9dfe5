/** Series per cluster. Catches: a series for each of many clusters, one that outlives its cluster, and counts that are lost in the rest. */
import { expect, it } from "vitest";

import { CLUSTERS_MAX, createClusterLoad } from "../../../../cli/clusters/cluster-load.ts";
import type { ClusterLoad } from "../../../../cli/clusters/cluster-load.ts";
import { createPrometheusMetrics } from "../../../../shared/base/prometheus/registry.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";

const metrics = createPrometheusMetrics("functions");

async function seriesOf(load: ClusterLoad): Promise<Readonly<Record<string, number>>> {
  load.tell(metrics);
  const found = (await metrics.text()).matchAll(/^deltaloop_cluster_load\{cluster="(.*)",kind="(.*)"\} (\d+)$/gm);
  return Object.fromEntries([...found].map(([, cluster, kind, value]) => [`${cluster} ${kind}`, Number(value)]));
}

it("has series for the busiest clusters, and the sum of all others", async () => {
  const load = createClusterLoad(createVirtualClock(1_000_000));
  for (let i = 1; i <= 200; i++) load.count(`c${i}`, "invocations", i);
  load.count("c1", "failures", 7);
  load.count("c200", "postponed", 3);
  const series = await seriesOf(load);
  expect(Object.keys(series)).toHaveLength(3 * (CLUSTERS_MAX + 1));
  expect(series).toMatchObject({ "c200 invocations": 200, "c200 postponed": 3, "c181 invocations": 181, "(rest) failures": 7 });
  expect(series["(rest) invocations"]).toBe((180 * 181) / 2);
  expect(series).not.toHaveProperty("c180 invocations");
});

it("forgets what is older than a minute, and clusters that are no longer served", async () => {
  const clock = createVirtualClock(1_000_000);
  const load = createClusterLoad(clock);
  load.count("old", "invocations", 1);
  await clock.advance(30_000);
  load.count("removed", "invocations", 1);
  load.count("old", "invocations", 2);
  expect(await seriesOf(load)).toMatchObject({ "old invocations": 3, "removed invocations": 1 });
  load.forget("removed");
  await clock.advance(31_000);
  const series = await seriesOf(load);
  expect(series).toMatchObject({ "old invocations": 2 });
  expect(Object.keys(series).filter((name) => name.startsWith("removed"))).toEqual([]);
  await clock.advance(60_000);
  expect(Object.keys(await seriesOf(load)).filter((name) => !name.startsWith("(rest)"))).toEqual([]);
});
