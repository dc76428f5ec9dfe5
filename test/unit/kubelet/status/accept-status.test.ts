// Would catch: a status that is sent needlessly or never, a start time that changes, and a terminated container that is reported as running
// again.
import { describe, expect, it } from "vitest";
import { deepFreeze } from "../../../../shared/base/freeze.ts";
import { acceptStatus } from "../../../../shared/node-agent/kubelet/status/accept-status.ts";
import type { PodCondition } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { ContainerStatusEntry, NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { CachedStatus, PodStatus } from "../../../../shared/node-agent/ports/node-store.ts";
import { ended, failed, running, started, succeeded, waiting } from "../container-status-fixtures.ts";
import { NOW_MS, ago, containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";

const POD = nodePod({ containers: ["a"] });
const LATER_MS = NOW_MS + 30_000;

interface Given {
  readonly pod?: NodePod;
  readonly force?: boolean;
  readonly nowMs?: number;
  readonly finished?: true;
}

function accept(
  cached: CachedStatus | undefined,
  next: PodStatus,
  { pod = POD, force = false, nowMs = NOW_MS, ...rest }: Given = {},
): CachedStatus {
  return deepFreeze(acceptStatus(cached && deepFreeze(cached), deepFreeze(next), { pod, force, nowMs, ...rest }));
}

const ready = (status: "True" | "False", fields: Partial<PodCondition> = {}): PodCondition => ({ type: "Ready", status, ...fields });

function status(fields: Partial<PodStatus> = {}): PodStatus {
  return { phase: "Running", conditions: [ready("True")], containerStatuses: [started("a")], observedGeneration: 1, ...fields };
}

describe("versions", () => {
  it("[node-agent 75] keeps the entry for an equal status", () => {
    const first = accept(undefined, status());
    expect(first).toMatchObject({ version: 1, sentVersion: 0, changedAtMs: NOW_MS });
    expect(accept(first, status(), { nowMs: LATER_MS })).toBe(first);
  });

  it("[node-agent 77] creates a new version of the unsent status for each change", () => {
    const first = accept(undefined, status());
    const second = accept(first, status({ phase: "Failed" }), { nowMs: LATER_MS });
    expect(second).toMatchObject({ version: 2, sentVersion: 0, changedAtMs: NOW_MS, status: { phase: "Failed" } });
    const third = accept({ ...second, sentVersion: 2 }, status(), { nowMs: LATER_MS });
    expect(third).toMatchObject({ version: 3, sentVersion: 2, changedAtMs: LATER_MS });
  });

  it("[node-agent 82] with force, creates a new version of an equal status, and keeps podIsFinished", () => {
    const first = accept(undefined, status());
    const finished = accept(first, status(), { force: true, finished: true });
    expect(finished).toMatchObject({ version: 2, podIsFinished: true });
    expect(accept(finished, status({ phase: "Failed" }))).toMatchObject({ version: 3, podIsFinished: true });
    expect(accept(first, status(), { finished: true })).toMatchObject({ version: 2, podIsFinished: true });
    expect(accept(finished, status(), { finished: true })).toBe(finished);
  });
});

describe("changed and unchanged statuses", () => {
  const table: readonly { name: string; before?: Partial<PodStatus>; next: Partial<PodStatus>; isNews: boolean }[] = [
    { name: "absent, null and empty values", before: { reason: "" }, next: { ephemeralContainerStatuses: [] }, isNews: false },
    { name: "other clients' conditions", next: { conditions: [ready("True"), { type: "example.com/g", status: "False" }] }, isNews: false },
    {
      name: "the order of conditions",
      before: { conditions: [ready("True"), { type: "PodScheduled", status: "True" }] },
      next: { conditions: [{ type: "PodScheduled", status: "True" }, ready("True")] },
      isNews: false,
    },
    { name: "resource claim statuses", next: { resourceClaimStatuses: [{ name: "c" }] }, isNews: false },
    { name: "only a condition's observedGeneration", next: { conditions: [ready("True", { observedGeneration: 9 })] }, isNews: false },
    { name: "a condition's status", next: { conditions: [ready("False")] }, isNews: true },
    { name: "a condition's message", next: { conditions: [ready("True", { message: "m" })] }, isNews: true },
    { name: "a removed condition of the kubelet", next: { conditions: [] }, isNews: true },
    { name: "DisruptionTarget", next: { conditions: [ready("True"), { type: "DisruptionTarget", status: "True" }] }, isNews: true },
    { name: "the generation", next: { observedGeneration: 2 }, isNews: true },
    { name: "a container", next: { containerStatuses: [running("a")] }, isNews: true },
    { name: "a message", next: { message: "m" }, isNews: true },
  ];
  it.each(table)("a status that differs in $name is accepted as changed: $isNews", ({ before, next, isNews }) => {
    const cached = accept(undefined, status(before));
    expect(accept(cached, status(next)) !== cached).toBe(isNews);
  });
});

describe("[node-agent 76] times of an accepted status", () => {
  const all = (readiness: "True" | "False"): PodStatus =>
    status({
      conditions: [
        ready(readiness),
        { type: "PodScheduled", status: "True" },
        { type: "mine", status: "True", lastTransitionTime: ago(99) },
      ],
    });

  it("startTime is set once, and only Ready's transition time changes when Ready changes", () => {
    const first = accept(undefined, all("False"));
    expect(first.status.startTime).toBe(ago(0));
    const flipped = accept(first, all("True"), { nowMs: LATER_MS });
    expect(flipped.status.startTime).toBe(ago(0));
    expect(flipped.status.conditions?.map(({ lastTransitionTime }) => lastTransitionTime)).toEqual([ago(-30), ago(0), ago(99)]);
    const same = accept(flipped, { ...all("True"), phase: "Pending" }, { nowMs: LATER_MS + 60_000 });
    expect(same.status.conditions?.[0]?.lastTransitionTime).toBe(ago(-30));
  });

  it("times are taken from the API server without a cached status, and observedGeneration never decreases", () => {
    const api: PodStatus = { startTime: ago(500), conditions: [ready("True", { lastTransitionTime: ago(400) })], observedGeneration: 5 };
    const first = accept(undefined, status(), { pod: nodePod({ containers: ["a"], status: api }) });
    expect(first.status).toMatchObject({ startTime: ago(500), observedGeneration: 5 });
    expect(first.status.conditions?.[0]?.lastTransitionTime).toBe(ago(400));
  });
});

describe("leaving Terminated", () => {
  const table: readonly { name: string; pod: NodePod; was: ContainerStatusEntry; is: ContainerStatusEntry; refused: boolean }[] = [
    {
      name: "[node-agent 80] Never, terminated → waiting",
      pod: nodePod({ containers: ["a"], restartPolicy: "Never" }),
      was: failed("a"),
      is: waiting("a"),
      refused: true,
    },
    {
      name: "[node-agent 80] Never, terminated → running",
      pod: nodePod({ containers: ["a"], restartPolicy: "Never" }),
      was: succeeded("a"),
      is: running("a"),
      refused: true,
    },
    {
      name: "Never, terminated → terminated",
      pod: nodePod({ containers: ["a"], restartPolicy: "Never" }),
      was: failed("a"),
      is: ended("a", 2),
      refused: false,
    },
    {
      name: "OnFailure, exited with 0",
      pod: nodePod({ containers: ["a"], restartPolicy: "OnFailure" }),
      was: succeeded("a"),
      is: waiting("a"),
      refused: true,
    },
    {
      name: "OnFailure, failed",
      pod: nodePod({ containers: ["a"], restartPolicy: "OnFailure" }),
      was: failed("a"),
      is: waiting("a"),
      refused: false,
    },
    { name: "Always", pod: nodePod({ containers: ["a"] }), was: succeeded("a"), is: running("a"), refused: false },
    {
      name: "Never, but the container's own policy is Always",
      pod: nodePod({ containers: [containerSpec("a", { restartPolicy: "Always" })], restartPolicy: "Never" }),
      was: succeeded("a"),
      is: running("a"),
      refused: false,
    },
    {
      name: "Never, but one of the container's rules matches",
      pod: nodePod({
        containers: [
          containerSpec("a", {
            restartPolicy: "Never",
            restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "NotIn", values: [0] } }],
          }),
        ],
        restartPolicy: "Never",
      }),
      was: failed("a"),
      is: running("a"),
      refused: false,
    },
  ];
  it.each(table)("$name: the transition is rejected: $refused", ({ pod, was, is, refused }) => {
    const cached = accept(undefined, status({ containerStatuses: [was] }), { pod });
    const next = status({ containerStatuses: [is], phase: "Pending" });
    expect(accept(cached, next, { pod, force: true }) === cached).toBe(refused);
  });

  it("[node-agent 80] the rule about Terminated applies to init containers, but not to sidecars", () => {
    const pod = nodePod({ initContainers: ["i", sidecarSpec("s")], containers: ["a"], restartPolicy: "Never" });
    const cached = accept(undefined, status({ initContainerStatuses: [succeeded("i"), failed("s")] }), { pod });
    expect(accept(cached, status({ initContainerStatuses: [succeeded("i"), running("s")] }), { pod })).not.toBe(cached);
    expect(accept(cached, status({ initContainerStatuses: [running("i"), failed("s")] }), { pod })).toBe(cached);
  });

  it("rejects Running without a cached status if the API status is Terminated, and sends nothing", () => {
    const api: PodStatus = { phase: "Running", containerStatuses: [failed("a")] };
    const pod = nodePod({ containers: ["a"], restartPolicy: "Never", status: api });
    const entry = accept(undefined, status({ containerStatuses: [running("a")] }), { pod });
    expect(entry).toEqual({ status: api, version: 1, sentVersion: 1, changedAtMs: NOW_MS });
  });
});

describe("messages", () => {
  const bytes = (text: string): number => new TextEncoder().encode(text).length;
  const ending = (message: string): ContainerStatusEntry["state"] => ({ terminated: { exitCode: 1, message } });

  it("messages share 12288 bytes among all containers, in state and lastState, in whole characters", () => {
    const pod = nodePod({ initContainers: ["i"], containers: ["a", "b"], ephemeralContainers: ["e"] });
    const long = ended("a", 1, { state: ending("ä".repeat(9000)) ?? {}, lastState: ending(`x${"ä".repeat(9000)}`) ?? {} });
    const { status: kept } = accept(
      undefined,
      status({ containerStatuses: [long], initContainerStatuses: [long], ephemeralContainerStatuses: [long] }),
      { pod },
    );
    for (const list of [kept.containerStatuses, kept.initContainerStatuses, kept.ephemeralContainerStatuses]) {
      const [entry] = list ?? [];
      expect(bytes(entry?.state?.terminated?.message ?? "")).toBe(3072);
      expect(bytes(entry?.lastState?.terminated?.message ?? "")).toBe(3071);
      expect(entry?.lastState?.terminated?.message).not.toContain("\uFFFD");
    }
  });

  it("messages are unchanged within the limit", () => {
    const { status: kept } = accept(undefined, status({ containerStatuses: [ended("a", 1, { state: ending("bye") ?? {} })] }));
    expect(kept.containerStatuses?.[0]?.state?.terminated?.message).toBe("bye");
  });
});
