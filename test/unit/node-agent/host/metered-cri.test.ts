// Would catch: a runtime call that is not counted, an error that is swallowed or not counted, and lost arguments.
import { expect, it } from "vitest";

import { createMemoryCri } from "../../../../shared/node-agent/memory/cri/cri.ts";
import { createPrometheusMetrics } from "../../../../shared/base/prometheus/registry.ts";
import { createSystemRandom } from "../../../../shared/base/system/random.ts";
import { meterCri } from "../../../../shared/node-agent/host/metered-cri.ts";
import type { Clock } from "../../../../shared/base/clock.ts";

const SANDBOX = { metadata: { name: "p", namespace: "default", uid: "u1", attempt: 0 } };

it("[node-agent §15] counts and times each call, counts a failed call also as an error, and returns results unchanged", async () => {
  let nowMs = 0;
  const clock: Clock = { now: () => (nowMs += 500), after: () => Promise.reject(new Error("nobody waits here")) };
  const metrics = createPrometheusMetrics("node");
  const cri = meterCri(createMemoryCri({ clock, random: createSystemRandom(), images: {} }), metrics, {
    ...clock,
    now: () => (nowMs += 250),
  });
  const id = await cri.runPodSandbox(SANDBOX);
  expect((await cri.listPodSandbox({ id })).map((sandbox) => sandbox.metadata.uid)).toEqual(["u1"]);
  await expect(cri.containerStatus("none")).rejects.toMatchObject({ code: "NotFound" });

  const text = await metrics.text();
  const told = (name: string): readonly string[] =>
    text.split("\n").filter((line) => line.startsWith(`kubelet_runtime_operations_${name}`));
  expect(told("total")).toEqual([
    'kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1',
    'kubelet_runtime_operations_total{operation_type="list_podsandbox"} 1',
    'kubelet_runtime_operations_total{operation_type="container_status"} 1',
  ]);
  expect(told("errors_total")).toEqual(['kubelet_runtime_operations_errors_total{operation_type="container_status"} 1']);
  expect(told("duration_seconds_count")).toHaveLength(3);
  expect(told('duration_seconds_bucket{le="0.005",operation_type="container_status"}')).toEqual([expect.stringMatching(/ 0$/)]);
});
