// Would catch: a pod that leaves a terminal phase, a reason that is lost or stale, a restart that is not counted, and lost conditions of
// other writers.
import { describe, expect, it } from "vitest";
import { generateApiPodStatus } from "../../../../shared/node-agent/kubelet/status/generate-status.ts";
import { isPastActiveDeadline } from "../../../../shared/node-agent/kubelet/pod-workers/active-deadline.ts";
import type { StatusInput } from "../../../../shared/node-agent/kubelet/status/generate-status.ts";
import type { PodCondition } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { AbnormalTermination, PodStatus } from "../../../../shared/node-agent/ports/node-store.ts";
import { running } from "../container-status-fixtures.ts";
import { IMAGE, NOTHING, NOW_MS, ago, container, containerSpec, exited, nodePod, observed, sandbox } from "../fixtures.ts";

function input(fields: Partial<StatusInput> = {}): StatusInput {
  return {
    pod: nodePod({ containers: ["a"] }),
    observed: observed({ containers: [container({ name: "a" })] }),
    previous: undefined,
    terminal: false,
    reasons: {},
    probes: { readiness: () => undefined, startup: () => undefined },
    hostIps: ["10.0.0.1"],
    runtimeName: "containerd",
    nowMs: NOW_MS,
    ...fields,
  };
}

const generate = (fields: Partial<StatusInput>): PodStatus => generateApiPodStatus(input(fields));
const statusOf = ({ conditions = [] }: PodStatus, type: string): string | undefined => conditions.find((one) => one.type === type)?.status;
const phaseOf = ({ phase, reason, message }: PodStatus): readonly (string | undefined)[] => [phase, reason, message];

it("reports all fields of a running pod", () => {
  const condition = (type: string): PodCondition => ({ type, status: "True", observedGeneration: 1 });
  expect(generate({})).toEqual({
    phase: "Running",
    conditions: ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition),
    containerStatuses: [
      {
        name: "a",
        image: IMAGE,
        imageID: `sha256:${"ab".repeat(32)}`,
        containerID: "containerd://a-0",
        ready: true,
        started: true,
        resources: {},
        restartCount: 0,
        state: { running: { startedAt: ago(40) } },
        lastState: {},
      },
    ],
    hostIP: "10.0.0.1",
    hostIPs: [{ ip: "10.0.0.1" }],
    podIP: "10.0.0.12",
    podIPs: [{ ip: "10.0.0.12" }],
    qosClass: "BestEffort",
    observedGeneration: 1,
  });
});

it("reports the initial state of a pod without instances", () => {
  const pod = nodePod({ initContainers: ["i"], containers: ["a"], ephemeralContainers: ["e"] });
  const status = generate({ pod, observed: NOTHING });
  expect(status.phase).toBe("Pending");
  for (const list of [status.initContainerStatuses, status.containerStatuses, status.ephemeralContainerStatuses])
    expect(list).toMatchObject([{ state: { waiting: { reason: "PodInitializing" } }, ready: false }]);
  expect(["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready"].map((type) => statusOf(status, type))).toEqual([
    "True",
    "False",
    "False",
    "False",
  ]);
});

describe("[node-agent 92] the status after a container has exited", () => {
  const crash = { a: { reason: "CrashLoopBackOff", message: "back-off" } };
  const table: readonly {
    policy: "Always" | "OnFailure" | "Never";
    exitCode: number;
    terminal: boolean;
    want: readonly [phase: string, state: string, ready: string];
  }[] = [
    { policy: "Always", exitCode: 0, terminal: false, want: ["Running", "waiting", "False"] },
    { policy: "Always", exitCode: 1, terminal: false, want: ["Running", "waiting", "False"] },
    { policy: "OnFailure", exitCode: 1, terminal: false, want: ["Running", "waiting", "False"] },
    { policy: "OnFailure", exitCode: 0, terminal: false, want: ["Succeeded", "terminated", "False"] },
    { policy: "Never", exitCode: 0, terminal: false, want: ["Succeeded", "terminated", "False"] },
    { policy: "Never", exitCode: 1, terminal: false, want: ["Failed", "terminated", "False"] },
    { policy: "Never", exitCode: 1, terminal: true, want: ["Failed", "terminated", "False"] },
  ];
  it.each(table)(
    "phase, state and Ready are $want under $policy after exit code $exitCode, pod terminal: $terminal",
    ({ policy, exitCode, terminal, want }) => {
      const pod = nodePod({ containers: ["a"], restartPolicy: policy });
      const before = generate({ pod });
      const current = observed({ containers: [exited("a", exitCode, { restartCount: 2 })] });
      const status = generate({ pod, observed: current, previous: before, reasons: crash, terminal });
      const [entry] = status.containerStatuses ?? [];
      expect([status.phase, Object.keys(entry?.state ?? {})[0], statusOf(status, "Ready")]).toEqual(want);
      expect(entry?.restartCount).toBe(2);
      expect((entry?.state?.terminated ?? entry?.lastState?.terminated)?.exitCode).toBe(exitCode);
    },
  );
});

describe("the phase", () => {
  const failedNow = observed({ containers: [exited("a", 1)] });
  const never = nodePod({ containers: ["a"], restartPolicy: "Never" });
  const why = { reason: "R", message: "M" };
  const api = (status: PodStatus): StatusInput["pod"] => nodePod({ containers: ["a"], status });

  const table: readonly { name: string; given: Partial<StatusInput>; want: readonly (string | undefined)[] }[] = [
    { name: "may go back to Pending", given: { observed: NOTHING, previous: { phase: "Running" } }, want: ["Pending"] },
    { name: "stays terminal if it is terminal in the cache", given: { previous: { phase: "Failed", ...why } }, want: ["Failed", "R", "M"] },
    {
      name: "stays terminal against another terminal phase",
      given: { pod: never, observed: failedNow, previous: { phase: "Succeeded" } },
      want: ["Succeeded"],
    },
    {
      name: "stays terminal if it is terminal at the API server",
      given: { pod: api({ phase: "Failed", ...why }) },
      want: ["Failed", "R", "M"],
    },
    {
      name: "of the API server takes precedence over the cache's",
      given: { pod: api({ phase: "Succeeded" }), previous: { phase: "Failed", ...why } },
      want: ["Succeeded"],
    },
    {
      name: "keeps reason and message while it is unchanged",
      given: { previous: { phase: "Running", ...why } },
      want: ["Running", "R", "M"],
    },
    {
      name: "keeps the API server's reason and message if the cache has none",
      given: { pod: api({ phase: "Running", ...why }), previous: { phase: "Running" } },
      want: ["Running", "R", "M"],
    },
    {
      name: "drops reason and message when it changes",
      given: { pod: never, observed: failedNow, previous: { phase: "Running", ...why } },
      want: ["Failed"],
    },
  ];
  it.each(table)("the phase $name", ({ given, want }) => expect(phaseOf(generate(given))).toEqual([want[0], want[1], want[2]]));
});

describe("an abnormal termination", () => {
  const evict: AbnormalTermination = { phase: "Failed", reason: "Evicted", message: "low on memory", isDisruption: true };
  const disruption = {
    type: "DisruptionTarget",
    status: "True",
    reason: "TerminationByKubelet",
    message: "low on memory",
    observedGeneration: 1,
  };

  it("fails the pod on an eviction and sets DisruptionTarget, which later statuses keep", () => {
    const first = generate({ abnormal: evict });
    expect(phaseOf(first)).toEqual(["Failed", "Evicted", "low on memory"]);
    expect(first.conditions).toContainEqual(disruption);
    const later = generate({ previous: first, observed: observed({ containers: [exited("a", 0)] }), terminal: true });
    expect(phaseOf(later)).toEqual(["Failed", "Evicted", "low on memory"]);
    expect(later.conditions).toContainEqual(disruption);
    expect(later.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(0);
  });

  it("[node-agent 454] a shutdown does not fail a pod that has just succeeded", () => {
    const never = nodePod({ containers: ["a"], restartPolicy: "Never" });
    const shutdown: AbnormalTermination = { ...evict, reason: "Terminated", unlessSucceeded: true };
    const ended = (exitCode: number, abnormal: AbnormalTermination): unknown =>
      phaseOf(generate({ pod: never, observed: observed({ containers: [exited("a", exitCode)] }), abnormal }))[0];
    expect([ended(0, shutdown), ended(1, shutdown), ended(0, evict)]).toEqual(["Succeeded", "Failed", "Failed"]);
    expect(phaseOf(generate({ abnormal: shutdown }))).toEqual(["Failed", "Terminated", "low on memory"]);
  });

  it("an abnormal termination that is not a disruption sets no DisruptionTarget", () => {
    const status = generate({ abnormal: { phase: "Failed", reason: "Preempting", message: "m" } });
    expect(phaseOf(status)).toEqual(["Failed", "Preempting", "m"]);
    expect(statusOf(status, "DisruptionTarget")).toBeUndefined();
  });

  it("an abnormal termination is ignored for a terminal pod", () => {
    expect(phaseOf(generate({ pod: nodePod({ containers: ["a"], status: { phase: "Succeeded" } }), abnormal: evict }))).toEqual([
      "Succeeded",
      undefined,
      undefined,
    ]);
  });
});

describe("the active deadline", () => {
  const pod = nodePod({ containers: ["a"], spec: { activeDeadlineSeconds: 60 } });
  const table: readonly { name: string; startTime?: string; seconds?: number; want: boolean }[] = [
    { name: "passed exactly now", startTime: ago(60), want: true },
    { name: "has not passed yet", startTime: ago(59), want: false },
    { name: "belongs to a pod without a startTime", want: false },
  ];
  it.each(table)("[node-agent 100] an active deadline that $name is exceeded: $want", ({ startTime, want }) => {
    const status: PodStatus = { phase: "Running", ...(startTime !== undefined && { startTime }) };
    expect(isPastActiveDeadline(pod, status, NOW_MS)).toBe(want);
    expect(isPastActiveDeadline({ ...pod, status }, undefined, NOW_MS)).toBe(want);
    expect(phaseOf(generate({ pod, previous: status }))[1]).toBe(want ? "DeadlineExceeded" : undefined);
  });

  it("[node-agent 100] an exceeded deadline fails the pod with upstream's message, unless the pod is already terminal", () => {
    const said = phaseOf(generate({ pod, previous: { phase: "Running", startTime: ago(61) } }));
    expect(said).toEqual(["Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"]);
    expect(phaseOf(generate({ pod, previous: { phase: "Succeeded", startTime: ago(61) } }))).toEqual(["Succeeded", undefined, undefined]);
    expect(isPastActiveDeadline(nodePod(), { startTime: ago(1e6) }, NOW_MS)).toBe(false);
  });
});

describe("conditions", () => {
  const foreign: PodCondition = { type: "example.com/g", status: "True", lastTransitionTime: ago(9) };
  const disruption = (message: string): PodCondition => ({ type: "DisruptionTarget", status: "True", message });

  it("[node-agent 79] keeps other clients' conditions from the API server, and computes the kubelet's conditions again", () => {
    const status: PodStatus = { conditions: [foreign, { type: "Ready", status: "False" }, { type: "PodResizePending", status: "True" }] };
    const { conditions = [] } = generate({ pod: nodePod({ containers: ["a"], status }) });
    expect(conditions[0]).toEqual(foreign);
    expect(conditions.filter(({ type }) => type === "Ready")).toHaveLength(1);
    expect(statusOf({ conditions }, "Ready")).toBe("True");
    expect(statusOf({ conditions }, "PodResizePending")).toBeUndefined();
  });

  it("prefers the cached DisruptionTarget to the API server's", () => {
    const status: PodStatus = { conditions: [disruption("api"), foreign] };
    const pod = nodePod({ containers: ["a"], status });
    const messages = (previous: PodStatus | undefined) =>
      generate({ pod, previous })
        .conditions?.filter(({ type }) => type === "DisruptionTarget")
        .map(({ message }) => message);
    expect(messages({ conditions: [disruption("cache")] })).toEqual(["cache"]);
    expect(messages({ conditions: [] })).toEqual(["api"]);
  });

  it("[node-agent 84] readiness gates use other clients' conditions", () => {
    const gated = (conditions: PodCondition[]) =>
      nodePod({ containers: ["a"], spec: { readinessGates: [{ conditionType: "example.com/g" }] }, status: { conditions } });
    expect(statusOf(generate({ pod: gated([foreign]) }), "Ready")).toBe("True");
    expect(statusOf(generate({ pod: gated([]) }), "Ready")).toBe("False");
    expect(statusOf(generate({ pod: gated([]) }), "ContainersReady")).toBe("True");
  });
});

it("readiness uses the probe results for the container id in the runtime", () => {
  const asked: string[] = [];
  const probes: StatusInput["probes"] = {
    readiness: (id) => (asked.push(id), "Failure"),
    startup: () => undefined,
  };
  const pod = nodePod({ containers: [containerSpec("a", { readinessProbe: { tcpSocket: { port: 80 } } })] });
  const status = generate({ pod, probes });
  expect(asked).toEqual(["a-0"]);
  expect(status.containerStatuses).toMatchObject([{ started: true, ready: false }]);
  expect(statusOf(status, "Ready")).toBe("False");
});

it("uses the API status as the previous status if none is cached", () => {
  const status: PodStatus = { phase: "Running", containerStatuses: [running("a", { restartCount: 2 })], podIPs: [{ ip: "10.1.1.1" }] };
  const current = observed({ sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })], containers: [] });
  const { containerStatuses, podIP } = generate({ pod: nodePod({ containers: ["a"], status }), observed: current });
  expect(containerStatuses?.[0]?.restartCount).toBe(3);
  expect(podIP).toBe("10.1.1.1");
});
