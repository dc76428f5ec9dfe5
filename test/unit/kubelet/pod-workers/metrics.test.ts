// Would catch: a pod or container that is counted twice, not at all, or in the wrong state, and a count that remains after the pod was
// deleted.
import { expect, test } from "vitest";

import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import { NODE_TABLES } from "../../../../shared/node-agent/ports/node-store.ts";
import type { NodeTable } from "../../../../shared/node-agent/ports/node-store.ts";
import { countedMetrics } from "../../../support/counted.ts";
import { startedNode } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };

test("[node-agent §15] counts started and running pods and containers, and the start latency", async () => {
  const metrics = countedMetrics();
  const node = await startedNode({ metrics, images: { "init:1": { exitAfterMs: 500 } } });
  await node.create("p", { containers: [APP], initContainers: [{ name: "init", image: "init:1" }] });
  await node.until("it runs", () => node.isReady("p"));
  await node.advance(2_000);
  expect(metrics.sums).toMatchObject({
    "kubelet_started_pods_total{}": 1,
    "kubelet_started_containers_total{container_type=init_container}": 1,
    "kubelet_started_containers_total{container_type=container}": 1,
    "kubelet_running_pods{}": 1,
    "kubelet_running_containers{container_state=running}": 1,
    "kubelet_running_containers{container_state=exited}": 1,
    "kubelet_pleg_last_seen_seconds{}": Math.floor(node.clock.now() / 1000),
  });
  const started = metrics.observed["kubelet_pod_start_duration_seconds{}"] ?? [];
  expect(started).toHaveLength(1);
  expect(started[0]).toBeGreaterThan(0.4);
  expect(started[0]).toBeLessThan(5);
  const intervals = metrics.observed["kubelet_pleg_relist_interval_seconds{}"] ?? [];
  expect(Math.max(...intervals)).toBeLessThan(1.5);
  expect(metrics.observed["kubelet_pleg_relist_duration_seconds{}"]).toHaveLength(intervals.length + 1);

  await node.delete("p");
  await node.until("it is gone", () => node.pod("p") === undefined);
  await node.advance(65_000);
  expect(metrics.sums).toMatchObject({ "kubelet_running_pods{}": 0, "kubelet_running_containers{container_state=running}": 0 });
  expect(metrics.observed["kubelet_pod_start_duration_seconds{}"]).toHaveLength(1);
  expect(metrics.sums["kubelet_started_pods_errors_total{}"]).toBeUndefined();
});

test("[node-agent §15] counts the NodeStore rows of pods, and none after their end", async () => {
  const metrics = countedMetrics();
  const node = await startedNode({ metrics });
  const rows = (table: NodeTable): number | undefined => metrics.sums[`deltaloop_node_rows{table=${table}}`];
  await node.create("p", { containers: [{ ...APP, readinessProbe: { exec: { command: ["look"] } } }] });
  await node.until("it runs", () => node.isReady("p"));
  await node.advance(3_000);
  expect([rows("workers"), rows("statuses"), rows("probes")]).toEqual([1, 1, 1]);
  await node.delete("p");
  await node.until("it is gone", () => node.pod("p") === undefined);
  await node.advance(5_000);
  expect(NODE_TABLES.map((table) => [table, rows(table)])).toEqual(NODE_TABLES.map((table) => [table, 0]));
});

test("[node-agent §15] counts failed starts by reason", async () => {
  const metrics = countedMetrics();
  const node = await startedNode({ metrics });
  let refused = 0;
  node.fateOf = ({ verb }) => (verb === "runPodSandbox" && refused++ === 0 ? { fail: new CriError("Unknown", "no network") } : "live");
  await node.create("p", { containers: [{ ...APP, image: "absent:1", imagePullPolicy: "Never" }] });
  const reasonOf = (): unknown => node.pod("p")?.status?.containerStatuses?.[0]?.state?.waiting?.reason;
  await node.until("it waits for its image", () => reasonOf() === "ErrImageNeverPull");
  expect(metrics.sums["kubelet_started_pods_errors_total{}"]).toBe(1);
  expect(metrics.sums["kubelet_started_pods_total{}"]).toBe(2);
  expect(metrics.sums["kubelet_started_containers_errors_total{container_type=container,code=ErrImageNeverPull}"]).toBeGreaterThan(0);
});

test("[node-agent 475] counts each exit of a container once, by code and reason", async () => {
  const metrics = countedMetrics();
  const images = { "init:1": { exitAfterMs: 500 }, "app:1": { exitAfterMs: 1_000, exitCode: 139 } };
  const node = await startedNode({ metrics, images });
  await node.create("p", { restartPolicy: "Never", containers: [APP], initContainers: [{ name: "init", image: "init:1" }] });
  await node.until("it has failed", () => node.pod("p")?.status?.phase === "Failed");
  await node.advance(65_000);
  await node.delete("p");
  await node.until("it is gone", () => node.pod("p") === undefined);
  const ends = Object.entries(metrics.sums).filter(([name]) => name.startsWith("kubelet_terminated_containers_total"));
  expect(Object.fromEntries(ends)).toEqual({
    "kubelet_terminated_containers_total{container_type=init_container,exit_code=0,reason=Completed}": 1,
    "kubelet_terminated_containers_total{container_type=container,exit_code=139,reason=Error}": 1,
  });
});

test("[node-agent 475] counts each exit of a restarted container, and does not count an unchanged one again", async () => {
  const metrics = countedMetrics();
  const node = await startedNode({ metrics, images: { "app:1": { exitAfterMs: 1_000, exitCode: 3 } } });
  await node.create("p", { containers: [APP] });
  await node.until("it starts again", () => (node.pod("p")?.status?.containerStatuses?.[0]?.restartCount ?? 0) >= 2);
  expect(metrics.sums["kubelet_terminated_containers_total{container_type=container,exit_code=3,reason=Error}"]).toBe(2);
});
