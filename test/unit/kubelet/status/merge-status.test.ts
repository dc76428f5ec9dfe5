// Would catch: a terminal phase that is reported too early, changed conditions of other writers, and a patch that does not produce the
// intended status.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { deepFreeze } from "../../../../shared/base/freeze.ts";
import { canBeDeleted, mergePodStatus, statusPatch } from "../../../../shared/node-agent/kubelet/status/merge-status.ts";
import { isOwnedCondition } from "../../../../shared/node-agent/kubelet/status/pod-conditions.ts";
import type { PodCondition } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { sameField } from "../../../../shared/node-agent/kubelet/status/accept-status.ts";
import { applyStrategicMergePatch } from "../../../../shared/api-server/rest/patch-strategic.ts";
import type { JsonObject } from "../../../../shared/base/json.ts";
import type { CachedStatus, PodStatus } from "../../../../shared/node-agent/ports/node-store.ts";
import { ended, started } from "../container-status-fixtures.ts";
import { ago, nodePod, NOW_MS } from "../fixtures.ts";

const ready = (status: "True" | "False", fields: Partial<PodCondition> = {}): PodCondition => ({ type: "Ready", status, ...fields });
const foreign = (status: string): PodCondition => ({ type: "example.com/g", status });
const disruption = (message: string, lastTransitionTime = ago(60)): PodCondition => ({
  type: "DisruptionTarget",
  status: "True",
  reason: "TerminationByKubelet",
  message,
  lastTransitionTime,
});

function merge(api: PodStatus | undefined, cached: PodStatus, containersMayRun = false): PodStatus {
  return deepFreeze(mergePodStatus(api && deepFreeze(api), deepFreeze(cached), containersMayRun, NOW_MS));
}

/** Returns `api` after the patch, or `api` itself if there is nothing to send. */
function patched(api: PodStatus | undefined, merged: PodStatus): PodStatus {
  const patch = statusPatch({ uid: "u" }, api, merged);
  const object = { status: api ?? {} } as unknown as JsonObject; // plain JSON
  return (patch === undefined ? object : applyStrategicMergePatch("Pod", object, patch as JsonObject))["status"] as unknown as PodStatus;
}

describe("conditions", () => {
  const table: readonly { name: string; api: PodCondition[]; cached: PodCondition[]; want: PodCondition[] }[] = [
    { name: "the kubelet's conditions are taken from the cache", api: [ready("False")], cached: [ready("True")], want: [ready("True")] },
    {
      name: "[node-agent 79] other clients' conditions are taken from the API server",
      api: [foreign("True")],
      cached: [foreign("False"), ready("True")],
      want: [foreign("True"), ready("True")],
    },
    {
      name: "[node-agent 79] conditions that other clients removed stay removed",
      api: [],
      cached: [foreign("True"), ready("True")],
      want: [ready("True")],
    },
    {
      name: "conditions that the kubelet removed are removed",
      api: [ready("True"), { type: "PodResizePending", status: "True" }],
      cached: [ready("True")],
      want: [ready("True")],
    },
    { name: "the cached DisruptionTarget is not sent while the pod runs", api: [], cached: [disruption("m")], want: [] },
    {
      name: "another client's DisruptionTarget is kept",
      api: [disruption("api")],
      cached: [disruption("cache")],
      want: [disruption("api")],
    },
  ];
  it.each(table)("merged conditions: $name", ({ api, cached, want }) => {
    expect(merge({ phase: "Running", conditions: api }, { phase: "Running", conditions: cached }).conditions).toEqual(want);
  });
});

describe("[node-agent 83] a transition to a terminal phase", () => {
  const api: PodStatus = { phase: "Running", reason: "old", conditions: [ready("True", { lastTransitionTime: ago(90) })] };
  const cached: PodStatus = {
    phase: "Failed",
    reason: "Evicted",
    message: "low on memory",
    conditions: [disruption("low on memory"), ready("True", { lastTransitionTime: ago(90), observedGeneration: 2 })],
  };

  it("a terminal phase waits while containers may run: phase, reason and message stay unchanged", () => {
    const { phase, reason, message, conditions } = merge(api, cached, true);
    expect([phase, reason, message]).toEqual(["Running", "old", undefined]);
    expect(conditions).toEqual([cached.conditions?.[1]]);
  });

  it("a terminal phase is sent once all containers have stopped, with the current DisruptionTarget and not ready", () => {
    const { phase, reason, message, conditions } = merge(api, cached);
    expect([phase, reason, message]).toEqual(["Failed", "Evicted", "low on memory"]);
    expect(conditions).toEqual([
      disruption("low on memory", ago(0)),
      { type: "Ready", status: "False", reason: "PodFailed", observedGeneration: 2, lastTransitionTime: ago(0) },
    ]);
  });

  it("replaces another writer's DisruptionTarget, and keeps its time while the status is the same", () => {
    const before = { ...api, conditions: [disruption("api", ago(30)), foreign("True")] };
    expect(merge(before, cached).conditions?.slice(0, 2)).toEqual([disruption("low on memory", ago(30)), foreign("True")]);
    const off = { ...before, conditions: [{ ...disruption("api"), status: "False" }] };
    expect(merge(off, cached).conditions?.[0]).toEqual(disruption("low on memory", ago(0)));
  });

  it("neither delays the phase nor sends DisruptionTarget when the API server already has a terminal phase", () => {
    const over: PodStatus = { phase: "Failed", conditions: [] };
    const { phase, conditions } = merge(over, cached, true);
    expect(phase).toBe("Failed");
    expect(conditions?.map(({ type, status }) => [type, status])).toEqual([["Ready", "False"]]);
  });

  it("a non-terminal phase is not delayed, but a terminal one is, even without an API status", () => {
    expect(merge({ phase: "Pending" }, { phase: "Running" }, true).phase).toBe("Running");
    expect(merge(undefined, { phase: "Failed" }, true).phase).toBeUndefined();
  });
});

it("takes resource claim statuses only from the API server", () => {
  const api: PodStatus = { resourceClaimStatuses: [{ name: "c" }] };
  expect(merge(api, { phase: "Running" }).resourceClaimStatuses).toEqual([{ name: "c" }]);
  expect(merge({}, { phase: "Running", ...api }).resourceClaimStatuses).toBeUndefined();
});

describe("statusPatch", () => {
  it("[node-agent 75] a patch is empty for equal statuses in another notation", () => {
    const merged: PodStatus = { phase: "Running", conditions: [ready("True")], containerStatuses: [ended("a", 1)] };
    const served = {
      phase: "Running",
      conditions: [{ ...ready("True"), lastProbeTime: null }],
      containerStatuses: [{ ...ended("a", 1), state: { terminated: { ...ended("a", 1).state?.terminated, startedAt: null } } }],
      podIPs: [],
    } as unknown as PodStatus; // null, where the client's types only allow absence
    expect(statusPatch({ uid: "u" }, served, merged)).toBeUndefined();
  });

  it("[node-agent 78] a patch contains the UID, so that another pod of that name rejects it", () => {
    expect(statusPatch({ uid: "u" }, undefined, { phase: "Running" })).toEqual({ metadata: { uid: "u" }, status: { phase: "Running" } });
  });

  it("[node-agent 79] a patch contains only differences: null or a deletion for removed fields, and no conditions of other components", () => {
    const api: PodStatus = {
      phase: "Pending",
      reason: "old",
      hostIP: "1.1.1.1",
      podIPs: [{ ip: "10.0.0.9" }],
      conditions: [
        ready("False", { reason: "ContainersNotReady", lastTransitionTime: ago(9) }),
        foreign("True"),
        { type: "PodResizePending", status: "True" },
      ],
      containerStatuses: [started("a")],
    };
    const merged: PodStatus = {
      phase: "Running",
      hostIP: "1.1.1.1",
      podIPs: [{ ip: "10.0.0.5" }],
      hostIPs: [{ ip: "1.1.1.1" }],
      conditions: [foreign("True"), ready("True", { lastTransitionTime: ago(1) })],
      containerStatuses: [ended("a", 1)],
    };
    expect(statusPatch({ uid: "u" }, api, merged)).toEqual({
      metadata: { uid: "u" },
      status: {
        phase: "Running",
        reason: null,
        podIPs: [{ $patch: "replace" }, { ip: "10.0.0.5" }],
        hostIPs: [{ ip: "1.1.1.1" }],
        conditions: [
          { type: "Ready", status: "True", reason: null, lastTransitionTime: ago(1) },
          { type: "PodResizePending", $patch: "delete" },
        ],
        containerStatuses: [ended("a", 1)],
      },
    });
    expect(statusPatch({ uid: "u" }, patched(api, merged), merged)).toBeUndefined();
  });

  const conditions = (types: readonly string[]) =>
    fc.uniqueArray(
      fc.record(
        {
          type: fc.constantFrom(...types),
          status: fc.constantFrom("True", "False"),
          reason: fc.constantFrom("A", "B"),
          message: fc.constantFrom("", "m"),
        },
        { requiredKeys: ["type", "status"] },
      ),
      { selector: ({ type }) => type },
    );
  const ips = fc
    .uniqueArray(fc.constantFrom("10.0.0.1", "10.0.0.2", "fd00::1"), { maxLength: 2 })
    .map((list) => list.map((ip) => ({ ip })));
  const statuses = (types: readonly string[]) =>
    fc.record(
      {
        phase: fc.constantFrom("Pending", "Running", "Failed"),
        reason: fc.constantFrom("", "R"),
        podIP: fc.constantFrom("10.0.0.1", "10.0.0.2"),
        podIPs: ips,
        hostIPs: ips,
        conditions: conditions(types),
        containerStatuses: fc.subarray([started("a"), ended("b", 1)]),
        startTime: fc.constant(ago(1)),
      },
      { requiredKeys: [] },
    );
  const TYPES = ["Ready", "Initialized", "PodResizePending", "DisruptionTarget", "example.com/g"];

  it("the patch transforms any status into the merged one, and a second patch is empty", () => {
    fc.assert(
      fc.property(statuses(TYPES), statuses(TYPES), fc.boolean(), (api, cached, mayRun) => {
        const merged = merge(api, cached, mayRun);
        const after = patched(api, merged);
        const byType = ({ conditions: list = [], ...rest }: PodStatus) => ({
          ...rest,
          conditions: list.toSorted((a, b) => (a.type < b.type ? -1 : 1)),
        });
        expect(sameField(byType(after), byType(merged))).toBe(true);
        expect(statusPatch({ uid: "u" }, after, merged)).toBeUndefined();
        const others = ({ conditions: list = [] }: PodStatus) =>
          list.filter(({ type }) => !isOwnedCondition(type) && type !== "DisruptionTarget");
        expect(others(after)).toEqual(others(api));
      }),
    );
  });
});

describe("[node-agent 82] canBeDeleted", () => {
  const entry: CachedStatus = { status: {}, version: 1, sentVersion: 1, changedAtMs: NOW_MS, podIsFinished: true };
  const { podIsFinished: _, ...unfinished } = entry;
  const table: readonly { name: string; deleting?: boolean; phase?: string; cached?: CachedStatus; mirror?: boolean; want: boolean }[] = [
    { name: "not finished", cached: unfinished, want: false },
    { name: "finished, but Running at the API server", phase: "Running", want: false },
    { name: "finished and terminal", want: true },
    { name: "finished and Succeeded", phase: "Succeeded", want: true },
    { name: "not being deleted", deleting: false, want: false },
    { name: "a mirror pod", mirror: true, want: false },
  ];
  it.each(table)(
    "canBeDeleted is $want for a pod that is $name",
    ({ deleting = true, phase = "Failed", cached = entry, mirror = false, want }) => {
      const pod = nodePod({
        status: { phase },
        ...(deleting && { deletionTimestamp: ago(5) }),
        ...(mirror && { annotations: { "kubernetes.io/config.mirror": "hash" } }),
      });
      expect(canBeDeleted(pod, cached)).toBe(want);
    },
  );
});
