// Would catch: a probe that runs too early, counts for the wrong container, kills twice, or publishes an unchanged result.
import { describe, expect, it } from "vitest";
import {
  afterProbe,
  beforeProbe,
  initialResult,
  probeKey,
  probesOf,
  splitProbeKey,
} from "../../../../shared/node-agent/kubelet/prober/probe.ts";
import type { ProbedContainer, ProbeInput, ProbeStep } from "../../../../shared/node-agent/kubelet/prober/probe.ts";
import type { ProbeKind, ProbeRecord, ProbeResult } from "../../../../shared/node-agent/ports/node-store.ts";
import { containerSpec, nodePod, NOW_MS, sidecarSpec } from "../fixtures.ts";

const KINDS: readonly ProbeKind[] = ["readiness", "liveness", "startup"];

/** A container that has run for 40 s and is started, except for a startup probe. */
function running(kind: ProbeKind, fields: Partial<ProbedContainer> = {}): ProbedContainer {
  return { id: "c1", running: true, startedAtMs: NOW_MS - 40_000, started: kind !== "startup", ...fields };
}

function record(kind: ProbeKind, fields: Partial<ProbeRecord> = {}): ProbeRecord {
  return { containerId: "c1", result: initialResult(kind), run: 0, ...fields };
}

function before(kind: ProbeKind, fields: Partial<ProbeInput> = {}): ProbeStep {
  return beforeProbe({
    kind,
    spec: {},
    record: record(kind),
    nowMs: NOW_MS,
    container: running(kind),
    hasStatus: true,
    phaseIsTerminal: false,
    podIsDeleting: false,
    isLast: false,
    ...fields,
  });
}

describe("beforeProbe", () => {
  const table: readonly {
    readonly name: string;
    readonly kind: ProbeKind;
    readonly given?: Partial<ProbeInput>;
    readonly want: ProbeStep;
  }[] = [
    {
      name: "waits for a status, and is scheduled again",
      kind: "readiness",
      given: { hasStatus: false, record: undefined, container: undefined },
      want: { run: false, record: { containerId: "", run: 0 } },
    },
    {
      name: "stops permanently in a terminal phase",
      kind: "readiness",
      given: { phaseIsTerminal: true },
      want: { run: false, record: undefined },
    },
    {
      name: "waits for a container, and keeps its result",
      kind: "liveness",
      given: { container: undefined },
      want: { run: false, record: record("liveness") },
    },
    { name: "runs readiness of a started container", kind: "readiness", want: { run: true, record: record("readiness") } },
    { name: "runs liveness of a started container", kind: "liveness", want: { run: true, record: record("liveness") } },
    { name: "runs startup of a container that has not started", kind: "startup", want: { run: true, record: record("startup") } },
    {
      name: "[node-agent 86] readiness waits until the container is started",
      kind: "readiness",
      given: { container: running("readiness", { started: false }) },
      want: { run: false, record: record("readiness") },
    },
    {
      name: "[node-agent 86] liveness waits until the container is started",
      kind: "liveness",
      given: { container: running("liveness", { started: false }) },
      want: { run: false, record: record("liveness") },
    },
    {
      name: "[node-agent 86] startup pauses once the container is started",
      kind: "startup",
      given: { record: record("startup", { result: "Success" }), container: running("startup", { started: true }) },
      want: { run: false, record: record("startup", { result: "Success" }) },
    },
    {
      name: "[node-agent 86] a new id resets readiness to Failure and reports that",
      kind: "readiness",
      given: { record: record("readiness", { containerId: "c0", result: "Success", lastOutcome: "Success", run: 7 }) },
      want: { run: true, record: record("readiness", { lastOutcome: "Success", run: 7 }), published: "Failure" },
    },
    {
      name: "[node-agent 86] a new id ends the hold of liveness, and its Success is not reported",
      kind: "liveness",
      given: { record: record("liveness", { containerId: "c0", result: "Failure", lastOutcome: "Failure", onHold: true }) },
      want: { run: true, record: record("liveness", { lastOutcome: "Failure" }) },
    },
    {
      name: "[node-agent 86] a new id resets startup to Unknown",
      kind: "startup",
      given: { record: record("startup", { containerId: "c0", result: "Success" }), container: running("startup") },
      want: { run: true, record: record("startup"), published: "Unknown" },
    },
    {
      name: "[node-agent 86] a new id is reported even with the previous result",
      kind: "readiness",
      given: { record: record("readiness", { containerId: "c0" }) },
      want: { run: true, record: record("readiness"), published: "Failure" },
    },
    {
      name: "the first container is a new id",
      kind: "readiness",
      given: { record: undefined },
      want: { run: true, record: record("readiness"), published: "Failure" },
    },
    {
      name: "a probe on hold waits for a new id",
      kind: "liveness",
      given: { record: record("liveness", { result: "Failure", onHold: true }) },
      want: { run: false, record: record("liveness", { result: "Failure", onHold: true }) },
    },
    {
      name: "a container that does not run fails readiness",
      kind: "readiness",
      given: {
        record: record("readiness", { result: "Success" }),
        container: running("readiness", { running: false }),
      },
      want: { run: false, record: record("readiness", { result: "Failure" }), published: "Failure" },
    },
    {
      name: "a failure of a container that does not run is reported once",
      kind: "readiness",
      given: { container: running("readiness", { running: false }) },
      want: { run: false, record: record("readiness") },
    },
    {
      name: "a container that is not restarted ends the probe",
      kind: "liveness",
      given: { isLast: true, container: running("liveness", { running: false }) },
      want: { run: false, record: record("liveness", { result: "Failure", stopped: true }), published: "Failure" },
    },
    {
      name: "deletion ends liveness without a report",
      kind: "liveness",
      given: { podIsDeleting: true },
      want: { run: false, record: record("liveness", { result: "Success", stopped: true }) },
    },
    {
      name: "deletion ends startup with Success",
      kind: "startup",
      given: { podIsDeleting: true },
      want: { run: false, record: record("startup", { result: "Success", stopped: true }), published: "Success" },
    },
    {
      name: "deletion does not end readiness",
      kind: "readiness",
      given: { podIsDeleting: true },
      want: { run: true, record: record("readiness") },
    },
    {
      name: "a stopped probe stays stopped",
      kind: "liveness",
      given: { record: record("liveness", { stopped: true }) },
      want: { run: false, record: record("liveness", { stopped: true }) },
    },
    {
      name: "a stopped probe starts again with a new container",
      kind: "liveness",
      given: { record: record("liveness", { containerId: "c0", stopped: true }) },
      want: { run: true, record: record("liveness") },
    },
    {
      name: "[node-agent 96] waits for initialDelaySeconds, in whole seconds",
      kind: "readiness",
      given: { spec: { initialDelaySeconds: 5 }, container: running("readiness", { startedAtMs: NOW_MS - 4_999 }) },
      want: { run: false, record: record("readiness") },
    },
    {
      name: "[node-agent 96] waits no longer than initialDelaySeconds",
      kind: "readiness",
      given: { spec: { initialDelaySeconds: 5 }, container: running("readiness", { startedAtMs: NOW_MS - 5_000 }) },
      want: { run: true, record: record("readiness") },
    },
    {
      name: "[node-agent 96] a new container is not ready while it waits",
      kind: "readiness",
      given: { spec: { initialDelaySeconds: 5 }, record: undefined, container: running("readiness", { startedAtMs: NOW_MS }) },
      want: { run: false, record: record("readiness"), published: "Failure" },
    },
  ];
  it.each(table)("before a probe: $name ($kind)", ({ kind, given, want }) => {
    expect(before(kind, given)).toEqual(want);
  });
});

/** Feeds outcomes (`S`, `F`, `E`) to the probe of a running container, and returns the published results, with `.` for none. */
function play(kind: ProbeKind, outcomes: string, spec: ProbeInput["spec"] = {}): { readonly said: string; readonly record: ProbeRecord } {
  const names = { S: "Success", F: "Failure", E: "error" } as const;
  const letters: { readonly [R in ProbeResult]: string } = { Success: "S", Failure: "F", Unknown: "U" };
  let now = record(kind);
  let said = "";
  for (const outcome of outcomes) {
    const step = before(kind, { record: now });
    if (!step.run) {
      said += "-";
      continue;
    }
    const after = afterProbe(kind, spec, step.record, names[outcome as keyof typeof names]);
    said += after.published === undefined ? "." : letters[after.published];
    now = after.record;
  }
  return { said, record: now };
}

describe("afterProbe", () => {
  const table: readonly {
    readonly name: string;
    readonly kind: ProbeKind;
    readonly outcomes: string;
    readonly spec?: ProbeInput["spec"];
    readonly said: string;
    readonly ends?: Partial<ProbeRecord>;
  }[] = [
    {
      name: "[node-agent 85] liveness fails at the third failure in a row and is then on hold",
      kind: "liveness",
      outcomes: "FFSFFFF",
      said: ".....F-",
      ends: { result: "Failure", onHold: true, run: 0 },
    },
    {
      name: "[node-agent 85] the thresholds of the spec apply",
      kind: "liveness",
      outcomes: "FF",
      spec: { failureThreshold: 1 },
      said: "F-",
    },
    {
      name: "[node-agent 85] an error changes nothing, and neither extends nor resets a series of failures",
      kind: "liveness",
      outcomes: "FEFEEF",
      said: ".....F",
      ends: { onHold: true },
    },
    {
      name: "[node-agent 85] errors alone never make a probe fail",
      kind: "liveness",
      outcomes: "EEEEEEEE",
      said: "........",
      ends: { run: 0 },
    },
    {
      name: "[node-agent 97] a liveness probe that succeeds reports nothing",
      kind: "liveness",
      outcomes: "SSSS",
      said: "....",
      ends: { run: 4 },
    },
    { name: "readiness succeeds immediately and is reported once", kind: "readiness", outcomes: "SSS", said: "S.." },
    { name: "readiness fails at the third failure, and is not on hold", kind: "readiness", outcomes: "SFFFFS", said: "S..F.S" },
    { name: "readiness has a success threshold", kind: "readiness", outcomes: "SSFFFSS", spec: { successThreshold: 2 }, said: ".S..F.S" },
    {
      name: "[node-agent 96] readiness that always fails is never ready, and kills nothing",
      kind: "readiness",
      outcomes: "FFFFFFFF",
      said: "........",
      ends: { result: "Failure" },
    },
    { name: "a failing startup probe requests a kill once", kind: "startup", outcomes: "FFFFF", said: "..F--", ends: { onHold: true } },
    {
      name: "startup may fail often before it succeeds",
      kind: "startup",
      outcomes: "FFFFS",
      spec: { failureThreshold: 30 },
      said: "....S",
    },
    {
      name: "a threshold of 0 is not set, and has its default",
      kind: "liveness",
      outcomes: "FFF",
      spec: { failureThreshold: 0, successThreshold: 0 },
      said: "..F",
    },
  ];
  it.each(table)("after a probe: $name ($kind)", ({ kind, outcomes, spec, said, ends = {} }) => {
    const played = play(kind, outcomes, spec);
    expect(played.said).toBe(said);
    expect(played.record).toMatchObject(ends);
  });

  it("[node-agent 97] requests a kill for each of five restarts", () => {
    let now: ProbeRecord | undefined;
    let kills = 0;
    for (let second = 0; second < 60; second++) {
      const step = before("liveness", { record: now, container: running("liveness", { id: `c${kills}` }) });
      now = step.record;
      if (!step.run) continue;
      const after = afterProbe("liveness", { failureThreshold: 1 }, step.record, kills < 5 ? "Failure" : "Success");
      now = after.record;
      if (after.published === "Failure") kills += 1;
    }
    expect(kills).toBe(5);
  });

  it("PB4 keeps the count of consecutive failures over a container crash: two before and one after make three", () => {
    const crashed = play("liveness", "FF").record;
    const step = before("liveness", { record: crashed, container: running("liveness", { id: "c2" }) });
    expect(step).toEqual({ run: true, record: { containerId: "c2", result: "Success", lastOutcome: "Failure", run: 2 } });
    expect(afterProbe("liveness", {}, record("liveness", { lastOutcome: "Failure", run: 2 }), "Failure").published).toBe("Failure");
  });
});

describe("probesOf", () => {
  const probes = { startupProbe: { periodSeconds: 1 }, readinessProbe: { periodSeconds: 2 }, livenessProbe: { periodSeconds: 3 } };

  it("returns the probes of regular containers and sidecars", () => {
    const pod = nodePod({
      containers: [containerSpec("app", probes), "quiet"],
      initContainers: [containerSpec("init", probes), sidecarSpec("side", { livenessProbe: { periodSeconds: 4 } })],
      ephemeralContainers: [containerSpec("debug", probes)],
    });
    expect(probesOf(pod)).toEqual([
      { container: "app", kind: "startup", spec: { periodSeconds: 1 } },
      { container: "app", kind: "readiness", spec: { periodSeconds: 2 } },
      { container: "app", kind: "liveness", spec: { periodSeconds: 3 } },
      { container: "side", kind: "liveness", spec: { periodSeconds: 4 } },
    ]);
  });

  it("returns keys that identify the probe", () => {
    expect(probeKey("u-1", "app", "readiness")).toBe("u-1/app/readiness");
    for (const kind of KINDS) expect(splitProbeKey(probeKey("u-1", "app", kind))).toEqual({ uid: "u-1", container: "app", kind });
  });
});
