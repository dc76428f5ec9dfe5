/** Wiring of a function: metrics in the log. */
import { expect, it, vi } from "vitest";
import { parseConfiguration } from "../../../shared/controllers/lambda/configuration.ts";
import { kubeHttpConfig } from "../../../shared/controllers/lambda/kube-credentials.ts";
import { fixedConfiguration } from "../../../shared/controllers/lambda/live-configuration.ts";
import { wireFunction } from "../../../shared/controllers/lambda/wire-function.ts";

const ENVIRONMENT = {
  DELTALOOP_DEPLOYMENT: "prod",
  DELTALOOP_CLUSTER: "5d3f00aa11bb",
  DELTALOOP_DIGEST_KEY: "0123456789abcdef",
  DELTALOOP_MAC_KEY: "fedcba9876543210",
  DELTALOOP_REDIS_URL: "redis://127.0.0.1:1",
  DELTALOOP_KUBE_SERVER: "https://127.0.0.1:1",
  DELTALOOP_LOG_LEVEL: "error",
  DELTALOOP_DELTAS_URL: "http://127.0.0.1:1/deltas.fifo",
  DELTALOOP_DOORBELLS_DEPLOYMENT_URL: "http://127.0.0.1:1/d",
  DELTALOOP_DOORBELLS_REPLICASET_URL: "http://127.0.0.1:1/rs",
  DELTALOOP_DOORBELLS_REPLICATIONCONTROLLER_URL: "http://127.0.0.1:1/rc",
};

it.each([
  { metrics: "emf", lines: 1 },
  { metrics: "none", lines: 0 },
])("writes $lines lines of metrics to standard output if DELTALOOP_METRICS is $metrics", ({ metrics, lines }) => {
  const live = fixedConfiguration(parseConfiguration({ ...ENVIRONMENT, DELTALOOP_METRICS: metrics }));
  const wiring = wireFunction("deployment", live, kubeHttpConfig(live, "deployment"));
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  wiring.metrics?.count("deltaloop_sweeper_rings_total", {}, 2);
  wiring.metrics?.flush?.();
  const texts = written.mock.calls.map(([text]) => String(text));
  written.mockRestore();
  expect(texts.filter((text) => text.includes('"deltaloop/prod"'))).toHaveLength(lines);
});
