// CloudWatch embedded metric format.
import { expect, it } from "vitest";
import { createEmfMetrics } from "../../../shared/base/emf/emf.ts";

function recorded(count: (metrics: ReturnType<typeof createEmfMetrics>) => void): readonly unknown[] {
  const lines: string[] = [];
  const metrics = createEmfMetrics({
    namespace: "deltaloop/test",
    dimensions: { function: "replicaset" },
    now: () => 1_700_000_000_000,
    write: (line) => lines.push(line),
  });
  count(metrics);
  metrics.flush?.();
  metrics.flush?.();
  return lines.map((line) => JSON.parse(line) as unknown);
}

it("CW2 writes one line for each set of labels, once", () => {
  expect(
    recorded((metrics) => {
      metrics.count("workqueue_retries_total", { name: "replicaset" });
      metrics.count("workqueue_retries_total", { name: "replicaset" }, 2);
      metrics.observe("workqueue_work_duration_seconds", { name: "replicaset" }, 0.25);
      metrics.observe("workqueue_work_duration_seconds", { name: "replicaset" }, 0.5);
      metrics.count("deltaloop_sweeper_rings_total", {}, 4);
    }),
  ).toEqual([
    {
      _aws: {
        Timestamp: 1_700_000_000_000,
        CloudWatchMetrics: [
          {
            Namespace: "deltaloop/test",
            Dimensions: [["function", "name"]],
            Metrics: [
              { Name: "workqueue_retries_total", Unit: "Count" },
              { Name: "workqueue_work_duration_seconds", Unit: "Seconds" },
            ],
          },
        ],
      },
      function: "replicaset",
      name: "replicaset",
      workqueue_retries_total: 3,
      workqueue_work_duration_seconds: [0.25, 0.5],
    },
    {
      _aws: {
        Timestamp: 1_700_000_000_000,
        CloudWatchMetrics: [
          {
            Namespace: "deltaloop/test",
            Dimensions: [["function"]],
            Metrics: [{ Name: "deltaloop_sweeper_rings_total", Unit: "Count" }],
          },
        ],
      },
      function: "replicaset",
      deltaloop_sweeper_rings_total: 4,
    },
  ]);
});

it("CW1 puts up to 100 values of a metric into a line, and loses no value", () => {
  const lines = recorded((metrics) => {
    for (let i = 0; i < 250; i++) metrics.observe("deltaloop_delta_lag_seconds", { resource: "pods" }, i);
  }) as readonly { readonly deltaloop_delta_lag_seconds: readonly number[] }[];
  const values = lines.map(({ deltaloop_delta_lag_seconds: told }) => told);
  expect(values.map(({ length }) => length)).toEqual([100, 100, 50]);
  expect(values.flat()).toEqual(Array.from({ length: 250 }, (_, i) => i));
});

it("writes nothing without metrics", () => {
  expect(recorded(() => undefined)).toEqual([]);
});
