// Would catch: a container that is ready although its probes have not succeeded, and a container without probes that is not ready.
import { describe, expect, it } from "vitest";
import { withReadiness } from "../../../../shared/node-agent/kubelet/status/container-statuses.ts";
import type { ProbeAnswer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ContainerSpec, ContainerStatusEntry } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { backOff, ended, failed, running, succeeded, waiting } from "../container-status-fixtures.ts";
import { containerSpec, sidecarSpec } from "../fixtures.ts";

const PROBE = { tcpSocket: { port: 80 } };

function judged(
  container: ContainerSpec,
  status: ContainerStatusEntry,
  answers: { readonly readiness?: ProbeAnswer; readonly startup?: ProbeAnswer; readonly isInit?: boolean } = {},
): readonly [boolean | undefined, boolean | undefined] {
  const probes = {
    readiness: (id: string): ProbeAnswer => (id === "a-0" ? answers.readiness : undefined),
    startup: (id: string): ProbeAnswer => (id === "a-0" ? answers.startup : undefined),
  };
  const [judgedStatus] = withReadiness([container], [status], { isInit: answers.isInit === true, probes });
  return [judgedStatus?.started, judgedStatus?.ready];
}

const table: readonly {
  name: string;
  probes: Partial<ContainerSpec>;
  readiness?: ProbeAnswer;
  startup?: ProbeAnswer;
  want: readonly [boolean, boolean];
}[] = [
  { name: "no probes", probes: {}, want: [true, true] },
  { name: "a readiness probe that has not run yet", probes: { readinessProbe: PROBE }, want: [true, false] },
  { name: "[node-agent 92] a failed readiness probe", probes: { readinessProbe: PROBE }, readiness: "Failure", want: [true, false] },
  { name: "[node-agent 92] a successful readiness probe", probes: { readinessProbe: PROBE }, readiness: "Success", want: [true, true] },
  { name: "a startup probe that has not run yet", probes: { startupProbe: PROBE }, want: [false, false] },
  { name: "a startup probe with an unknown result", probes: { startupProbe: PROBE }, startup: "Unknown", want: [false, false] },
  { name: "a successful startup probe", probes: { startupProbe: PROBE }, startup: "Success", want: [true, true] },
  {
    name: "a pending startup probe and an earlier successful readiness probe",
    probes: { startupProbe: PROBE, readinessProbe: PROBE },
    startup: "Unknown",
    readiness: "Success",
    want: [false, false],
  },
];
describe.each(["regular", "sidecar"])("a running %s container", (role) => {
  it.each(table)("with $name: [started, ready] = $want", ({ probes, want, ...answers }) => {
    const container = role === "sidecar" ? sidecarSpec("a", probes) : containerSpec("a", probes);
    expect(judged(container, running("a"), { ...answers, isInit: role === "sidecar" })).toEqual(want);
  });
});

it.each([waiting("a"), succeeded("a"), failed("a"), backOff("a", 1), ended("a", 0, { ready: true, started: true })])(
  "[node-agent 92] a container is neither started nor ready while it is not running, whatever its previous status: %o",
  (status) => expect(judged(containerSpec("a"), status, { readiness: "Success", startup: "Success" })).toEqual([false, false]),
);

it.each([
  { name: "ended with 0", status: succeeded("a"), want: [false, true] },
  { name: "failed", status: failed("a"), want: [false, false] },
  { name: "runs", status: running("a"), want: [true, false] },
])("a plain init container that $name → started, ready = $want", ({ status, want }) => {
  expect(judged(containerSpec("a"), status, { isInit: true })).toEqual(want);
});
