// Status counts and conditions, which `kubectl rollout status` reads.
import { describe, expect, it } from "vitest";
import { getCondition, removeCondition, setDeploymentCondition } from "../../../shared/kube/objects/conditions.ts";
import type { CachedDeployment, CachedReplicaSet, DeploymentStatus } from "../../../shared/kube/objects/cached.ts";
import type { Condition } from "../../../shared/kube/objects/wire.ts";
import {
  deploymentComplete,
  deploymentProgressing,
  deploymentTimedOut,
  followUpMs,
  pausedStatus,
  progressRecheckMs,
  rolloutStatus,
} from "../../../shared/controllers/deployment/progress.ts";
import { calculateStatus, sameStatus } from "../../../shared/controllers/deployment/status.ts";
import { updateStatus } from "../../../shared/controllers/deployment/writes.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { liveDeployment } from "./live-objects.ts";
import { condition, deployment, EARLIER, NOW, NOW_MS, OWNER, replicaSet } from "./builders.ts";

const progressing = (d: { readonly conditions?: readonly Condition[] }): Condition | undefined => getCondition(d.conditions, "Progressing");
const at = (time: string): number => Date.parse(`2026-03-01T${time}Z`);

describe("calculateStatus", () => {
  const rs = {
    1: replicaSet("rs1", { size: 1, template: "v1", status: { replicas: 2, terminatingReplicas: 3, observedGeneration: 1 } }),
    2: replicaSet("rs2", { size: 2, template: "a", status: { replicas: 3, terminatingReplicas: 1, observedGeneration: 1 } }),
    3: replicaSet("rs3", { size: 3, template: "b", status: {} }),
    4: replicaSet("rs4", { size: 1, template: "c", status: { replicas: 1, observedGeneration: 1 } }),
  };
  const table: { of: readonly (keyof typeof rs)[]; want: readonly [number, number, number | undefined] }[] = [
    { of: [1], want: [1, 2, 3] },
    { of: [1, 2], want: [3, 5, 4] },
    { of: [3], want: [3, 0, 0] },
    { of: [1, 2, 3], want: [6, 5, 4] },
    { of: [4], want: [1, 1, undefined] },
    { of: [1, 2, 3, 4], want: [7, 6, undefined] },
  ];
  it.each(table)(
    "[deployment T128] calculateStatus of ReplicaSets $of: unavailable, existing and terminating replicas $want",
    ({ of, want }) => {
      const { decided: status } = calculateStatus(deployment(), { newRS: undefined, oldRSs: of.map((n) => rs[n]) }, NOW_MS);
      // No pod is available, so the number of unavailable pods equals the desired number.
      expect([status.unavailableReplicas, status.replicas, status.terminatingReplicas]).toEqual(want);
    },
  );

  const stages: {
    name: string;
    rs: CachedReplicaSet["status"];
    want: readonly [number, number, number, number, number, number];
    available: string;
  }[] = [
    {
      name: "not ready",
      rs: { replicas: 10, terminatingReplicas: 0, observedGeneration: 1 },
      want: [10, 10, 0, 0, 10, 0],
      available: "False",
    },
    {
      name: "ready",
      rs: { replicas: 10, readyReplicas: 10, terminatingReplicas: 0, observedGeneration: 1 },
      want: [10, 10, 10, 0, 10, 0],
      available: "False",
    },
    {
      name: "available",
      rs: { replicas: 10, readyReplicas: 10, availableReplicas: 10, terminatingReplicas: 0, observedGeneration: 1 },
      want: [10, 10, 10, 10, 0, 0],
      available: "True",
    },
  ];
  it.each(stages)(
    "[deployment T120] counts of 10 pods that are $name are $want, and Available is $available",
    ({ rs: status, want, available }) => {
      const { decided: got } = calculateStatus(
        deployment({ replicas: 10 }),
        { newRS: replicaSet("new", { size: 10, status }), oldRSs: [] },
        NOW_MS,
      );
      expect([
        got.replicas,
        got.updatedReplicas,
        got.readyReplicas,
        got.availableReplicas,
        got.unavailableReplicas,
        got.terminatingReplicas,
      ]).toEqual(want);
      expect(getCondition(got.conditions, "Available")?.status).toBe(available);
    },
  );

  it("reports no negative counts while a scaled-down ReplicaSet still reports its pods", () => {
    const shrunk = replicaSet("old", { size: 1, available: 3, template: "v0" });
    expect(calculateStatus(deployment(), { newRS: undefined, oldRSs: [shrunk] }, NOW_MS).decided.unavailableReplicas).toBe(0);
  });

  it("keeps collisionCount and conditions of other controllers, and observes the generation", () => {
    const foreign = condition("Foreign", "True", "Somebody");
    const d = deployment({ generation: 7, replicas: 0, status: { collisionCount: 2, conditions: [foreign] } });
    expect(calculateStatus(d, { newRS: undefined, oldRSs: [] }, NOW_MS).decided).toEqual({
      observedGeneration: 7,
      replicas: 0,
      updatedReplicas: 0,
      readyReplicas: 0,
      availableReplicas: 0,
      unavailableReplicas: 0,
      terminatingReplicas: 0,
      collisionCount: 2,
      conditions: [
        foreign,
        condition("Available", "True", "MinimumReplicasAvailable", { message: "Deployment has minimum availability." }),
      ],
    });
  });

  it("keeps an Available condition that is unchanged, and its transition time while only the reason changes", () => {
    const stays = condition("Available", "True", "MinimumReplicasAvailable", { updated: EARLIER, message: "an older text" });
    const none = { newRS: undefined, oldRSs: [] };
    expect(calculateStatus(deployment({ replicas: 0, status: { conditions: [stays] } }), none, NOW_MS).decided.conditions).toEqual([stays]);
    const other = { ...stays, reason: "Else" };
    expect(calculateStatus(deployment({ replicas: 0, status: { conditions: [other] } }), none, NOW_MS).decided.conditions).toMatchObject([
      { lastUpdateTime: NOW, lastTransitionTime: EARLIER },
    ]);
  });
});

describe("status writes", () => {
  it("status writes contain every counter, and null for each field to remove", () => {
    const d = deployment({ status: { terminatingReplicas: 1, replicas: 2 } });
    expect(updateStatus(d, { replicas: 1 })).toEqual({
      kind: "UpdateStatus",
      owner: OWNER,
      resourceVersion: "100",
      status: {
        observedGeneration: 0,
        replicas: 1,
        updatedReplicas: 0,
        readyReplicas: 0,
        availableReplicas: 0,
        unavailableReplicas: 0,
        conditions: [],
      },
      absent: ["terminatingReplicas", "collisionCount"],
    });
    expect(updateStatus(d, { terminatingReplicas: 0, collisionCount: 0 })).toMatchObject({
      absent: [],
      status: { terminatingReplicas: 0, collisionCount: 0 },
    });
  });

  it("omit status fields that this version does not know: the write gateway would reject them, and a merge patch leaves them unchanged", async () => {
    const newer = { replicas: 1, rolloutHealth: "Good" };
    expect(updateStatus(deployment(), newer).status).not.toHaveProperty("rolloutHealth");
    const harness = await SyncHarness.of([liveDeployment(1, { status: newer, spec: { paused: true, progressDeadlineSeconds: 600 } })]);
    await harness.handle();
    expect(harness.written()).toContain("patch deployments/status web");
  });

  it("status writes are sent unless everything is equal; only for plain counters, absent equals 0", () => {
    const available = condition("Available", "True", "MinimumReplicasAvailable");
    const one: DeploymentStatus = { replicas: 1, conditions: [available] };
    expect(sameStatus(one, { replicas: 1, readyReplicas: 0, conditions: [{ ...available }] })).toBe(true);
    expect(sameStatus({}, { conditions: [] })).toBe(true);
    expect(sameStatus(one, { ...one, terminatingReplicas: 0 })).toBe(false);
    expect(sameStatus(one, { ...one, collisionCount: 0 })).toBe(false);
    expect(sameStatus(one, { ...one, conditions: [{ ...available, lastUpdateTime: EARLIER }] })).toBe(false);
    expect(
      sameStatus({ conditions: [available, condition("A", "True", "B")] }, { conditions: [condition("A", "True", "B"), available] }),
    ).toBe(false);
  });
});

describe("conditions", () => {
  it("[deployment T127] conditions are added, appended, replaced and removed by type", () => {
    const progress = condition("Progressing", "True", "A");
    const available = condition("Available", "True", "B");
    expect(setDeploymentCondition(undefined, progress)).toEqual([progress]);
    expect(setDeploymentCondition([progress], available)).toEqual([progress, available]);
    const failed = condition("Progressing", "False", "A");
    expect(setDeploymentCondition([progress, available], failed)).toEqual([available, failed]);
    expect(removeCondition(undefined, "Progressing")).toEqual([]);
    expect(removeCondition([progress, available], "Progressing")).toEqual([available]);
    expect(removeCondition([available], "Progressing")).toEqual([available]);
  });
});

describe("deploymentComplete", () => {
  it.each([
    [[5, 5, 5, 4], false],
    [[5, 5, 5, 3], false],
    [[5, 5, 5, 5], true],
    [[5, 5, 4, 5], false],
    [[1, 2, 1, 1], false],
    [[1, 1, 1, 0], false],
  ] as const)(
    "[deployment T124] deploymentComplete for desired, existing, updated and available replicas %j → %s",
    ([wanted, replicas, updatedReplicas, availableReplicas], want) => {
      expect(
        deploymentComplete(deployment({ replicas: wanted }), { observedGeneration: 1, replicas, updatedReplicas, availableReplicas }),
      ).toBe(want);
    },
  );
  it("requires the generation to be observed", () => {
    expect(deploymentComplete(deployment({ replicas: 0, generation: 2 }), { observedGeneration: 1 })).toBe(false);
  });
});

describe("deploymentProgressing", () => {
  type Counts = readonly [number, number, number, number];
  const status = ([replicas, updatedReplicas, readyReplicas, availableReplicas]: Counts): DeploymentStatus => ({
    replicas,
    updatedReplicas,
    readyReplicas,
    availableReplicas,
  });
  const table: readonly [Counts, Counts, boolean][] = [
    [[10, 4, 4, 4], [10, 6, 4, 4], true],
    [[10, 4, 4, 4], [10, 4, 4, 4], false],
    [[10, 4, 6, 6], [8, 4, 6, 6], true],
    [[10, 7, 3, 3], [10, 6, 3, 3], false],
    [[10, 4, 7, 7], [8, 8, 5, 5], true],
    [[10, 10, 9, 8], [10, 10, 10, 8], true],
    [[10, 10, 10, 9], [10, 10, 10, 10], true],
  ];
  it.each(table)(
    "[deployment T125] replaced, updated, ready and available replicas from %j to %j: progressing %s",
    (before, after, want) => {
      expect(deploymentProgressing(deployment({ replicas: 10, status: status(before) }), status(after))).toBe(want);
    },
  );
});

describe("deploymentTimedOut", () => {
  const updated = (reason: string): DeploymentStatus => ({ conditions: [condition("Progressing", "True", reason, { updated: NOW })] });
  it.each([
    ["no deadline", undefined, "ReplicaSetUpdated", 11_000, false],
    ["the maximum deadline, which means none", 2_147_483_647, "ReplicaSetUpdated", 11_000, false],
    ["11 s of a 10 s deadline have passed", 10, "ReplicaSetUpdated", 11_000, true],
    ["9 s of a 10 s deadline have passed", 10, "ReplicaSetUpdated", 9_000, false],
    ["exactly the deadline of 10 s has passed", 10, "ReplicaSetUpdated", 10_000, false],
    ["1 ms more than the deadline of 10 s has passed", 10, "ReplicaSetUpdated", 10_001, true],
    ["reason NewReplicaSetAvailable", 10, "NewReplicaSetAvailable", 11_000, false],
    ["the condition already reports ProgressDeadlineExceeded", 10, "ProgressDeadlineExceeded", 0, true],
  ] as const)("[deployment T126] deploymentTimedOut: %s", (_name, deadline, reason, passedMs, want) => {
    const d = deployment(deadline === undefined ? {} : { deadline });
    expect(deploymentTimedOut(d, updated(reason), NOW_MS + passedMs)).toBe(want);
  });
  it("does not time out without a Progressing condition", () => {
    expect(deploymentTimedOut(deployment({ deadline: 10 }), {}, NOW_MS)).toBe(false);
  });
});

describe("progressRecheckMs", () => {
  const incomplete: DeploymentStatus = { observedGeneration: 1, replicas: 3, updatedReplicas: 2, availableReplicas: 2 };
  const stuck = (deadline: number | undefined, reason: string | undefined, replicas = 3): CachedDeployment =>
    deployment({
      replicas,
      ...(deadline === undefined ? {} : { deadline }),
      status:
        reason === undefined
          ? incomplete
          : { ...incomplete, conditions: [condition("Progressing", "True", reason, { updated: "2026-03-01T18:49:00Z" })] },
    });
  const recheck = (d: CachedDeployment, time: string, status: DeploymentStatus = incomplete): number | undefined =>
    progressRecheckMs(d, status, at(time)).decided;

  it("[deployment T122] the recheck delay is undefined if there is nothing to wait for", () => {
    const complete: DeploymentStatus = { observedGeneration: 1, replicas: 3, updatedReplicas: 3, availableReplicas: 3 };
    expect(recheck(stuck(undefined, "ReplicaSetUpdated", 4), "18:49:30")).toBeUndefined();
    expect(recheck(stuck(2_147_483_647, "ReplicaSetUpdated", 4), "18:49:30")).toBeUndefined();
    expect(recheck(stuck(60, undefined, 4), "18:49:30")).toBeUndefined();
    expect(recheck(stuck(60, "ReplicaSetUpdated"), "18:49:30", complete)).toBeUndefined();
    expect(recheck(stuck(60, "ProgressDeadlineExceeded"), "18:49:30")).toBeUndefined();
  });

  // Upstream requeues with its current time until the deadline; ours requeues at the millisecond after the deadline, or immediately if it
  // has passed.
  it.each([
    ["18:49:30", 31_000],
    ["18:49:59", 2_000],
    ["18:49:59.001", 1_000],
    ["18:50:00", 1],
    ["18:50:01", 0],
    ["18:51:00", 0],
  ] as const)("[deployment T123] the recheck delay at %s is %d ms", (time, want) => {
    expect(recheck(stuck(60, "ReplicaSetUpdated"), time)).toBe(want);
  });

  it("[deployment S20] the recheck delay is undefined with reason NewReplicaSetAvailable, which cannot time out", () => {
    expect(recheck(stuck(60, "NewReplicaSetAvailable"), "18:51:00")).toBeUndefined();
  });
});

describe("rolloutStatus", () => {
  const foo = replicaSet("foo", {
    size: 3,
    status: { replicas: 2, readyReplicas: 2, availableReplicas: 2, observedGeneration: 1 },
    age: 1,
  });
  const bar = replicaSet("bar", {
    size: 0,
    template: "v0",
    status: { replicas: 1, readyReplicas: 1, availableReplicas: 1, observedGeneration: 1 },
  });
  const foo33 = replicaSet("foo", {
    size: 3,
    status: { replicas: 3, readyReplicas: 3, availableReplicas: 3, observedGeneration: 1 },
    age: 1,
  });
  const empty = replicaSet("foo", { size: 0, status: { observedGeneration: 1 } });
  const was = (status: Condition["status"], reason: string): Condition => condition("Progressing", status, reason, { updated: EARLIER });
  interface Case {
    readonly name: string;
    readonly deadline?: number | null;
    readonly replicas?: number;
    readonly counts?: number;
    readonly before?: Condition;
    readonly newRS?: CachedReplicaSet;
    readonly oldRSs?: readonly CachedReplicaSet[];
    readonly want: Partial<Condition> | undefined;
  }
  const table: readonly Case[] = [
    { name: "no deadline → removed", deadline: null, before: was("True", "ReplicaSetUpdated"), newRS: foo, oldRSs: [bar], want: undefined },
    {
      name: "complete, no new ReplicaSet → unchanged",
      counts: 3,
      before: was("True", "NewReplicaSetAvailable"),
      oldRSs: [foo33],
      want: was("True", "NewReplicaSetAvailable"),
    },
    {
      name: "progressing → progressing again, same transition time",
      before: was("True", "ReplicaSetUpdated"),
      newRS: foo,
      oldRSs: [bar],
      want: {
        status: "True",
        reason: "ReplicaSetUpdated",
        lastUpdateTime: NOW,
        lastTransitionTime: EARLIER,
        message: 'ReplicaSet "foo" is progressing.',
      },
    },
    {
      name: "timed out → progressing, both times new",
      before: was("False", "ProgressDeadlineExceeded"),
      newRS: foo,
      oldRSs: [bar],
      want: { status: "True", reason: "ReplicaSetUpdated", lastUpdateTime: NOW, lastTransitionTime: NOW },
    },
    {
      name: "none → progressing",
      newRS: foo,
      oldRSs: [bar],
      want: { status: "True", reason: "ReplicaSetUpdated", lastUpdateTime: NOW, lastTransitionTime: NOW },
    },
    {
      name: "complete → available, same transition time",
      before: was("True", "ReplicaSetUpdated"),
      newRS: foo33,
      want: {
        status: "True",
        reason: "NewReplicaSetAvailable",
        lastUpdateTime: NOW,
        lastTransitionTime: EARLIER,
        message: 'ReplicaSet "foo" has successfully progressed.',
      },
    },
    {
      name: "timed out → available",
      before: was("False", "ProgressDeadlineExceeded"),
      newRS: foo33,
      want: { status: "True", reason: "NewReplicaSetAvailable", lastTransitionTime: NOW },
    },
    { name: "none → available", newRS: foo33, want: { status: "True", reason: "NewReplicaSetAvailable" } },
    {
      name: "0 replicas, no new ReplicaSet → available, with the Deployment's message",
      replicas: 0,
      counts: 0,
      oldRSs: [empty],
      want: { status: "True", reason: "NewReplicaSetAvailable", message: 'Deployment "web" has successfully progressed.' },
    },
    {
      name: "no progress until the deadline → timed out",
      before: was("True", "ReplicaSetUpdated"),
      newRS: foo,
      want: {
        status: "False",
        reason: "ProgressDeadlineExceeded",
        lastTransitionTime: NOW,
        message: 'ReplicaSet "foo" has timed out progressing.',
      },
    },
    {
      name: "timed out already → unchanged",
      before: was("False", "ProgressDeadlineExceeded"),
      newRS: foo,
      want: was("False", "ProgressDeadlineExceeded"),
    },
  ];
  it.each(table)(
    "[deployment T129] rolloutStatus: $name",
    ({ deadline = 60, replicas = 3, counts = 2, before, newRS, oldRSs = [], want }) => {
      const d = deployment({
        strategy: "Recreate",
        replicas,
        ...(deadline === null ? {} : { deadline }),
        status: {
          observedGeneration: 1,
          replicas: counts,
          updatedReplicas: counts,
          readyReplicas: counts,
          availableReplicas: counts,
          conditions: before === undefined ? [] : [before],
        },
      });
      const got = progressing(rolloutStatus(d, { newRS, oldRSs }, NOW_MS).decided);
      if (want === undefined) expect(got).toBeUndefined();
      else expect(got).toMatchObject(want);
    },
  );

  it("reports a failure of the new ReplicaSet before any other, and removes it when resolved", () => {
    const failure = (message: string): CachedReplicaSet["status"] => ({
      conditions: [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message, lastTransitionTime: EARLIER }],
    });
    const newRS = replicaSet("new", { status: failure("new"), age: 1 });
    const old = replicaSet("old", { template: "v0", status: failure("old") });
    const d = deployment();
    const reported = (status: DeploymentStatus): Condition | undefined => getCondition(status.conditions, "ReplicaFailure");
    expect(reported(rolloutStatus(d, { newRS, oldRSs: [old] }, NOW_MS).decided)).toEqual({
      type: "ReplicaFailure",
      status: "True",
      reason: "FailedCreate",
      message: "new",
      lastTransitionTime: EARLIER,
      lastUpdateTime: EARLIER,
    });
    expect(reported(rolloutStatus(d, { newRS: undefined, oldRSs: [old] }, NOW_MS).decided)?.message).toBe("old");
    const before = deployment({ status: { conditions: [condition("ReplicaFailure", "True", "FailedCreate")] } });
    expect(reported(rolloutStatus(before, { newRS: replicaSet("new"), oldRSs: [] }, NOW_MS).decided)).toBeUndefined();
  });
});

describe("pausedStatus", () => {
  const d = (paused: boolean, deadline: number | undefined, conditions: readonly Condition[] = []): CachedDeployment =>
    deployment({ paused, ...(deadline === undefined ? {} : { deadline }), status: { replicas: 2, conditions } });
  it("records a condition for a pause and for a resume once", () => {
    expect(pausedStatus(d(true, 60), NOW_MS).decided).toEqual({
      replicas: 2,
      conditions: [condition("Progressing", "Unknown", "DeploymentPaused", { message: "Deployment is paused" })],
    });
    const paused = condition("Progressing", "Unknown", "DeploymentPaused", { updated: EARLIER });
    expect(pausedStatus(d(true, 60, [paused]), NOW_MS).decided).toBeUndefined();
    expect(pausedStatus(d(false, 60, [paused]), NOW_MS).decided?.conditions).toEqual([
      condition("Progressing", "Unknown", "DeploymentResumed", { message: "Deployment is resumed", updated: NOW, since: EARLIER }),
    ]);
    expect(pausedStatus(d(false, 60), NOW_MS).decided).toBeUndefined();
  });
  it("records nothing without a deadline or after a time-out", () => {
    expect(pausedStatus(d(true, undefined), NOW_MS).decided).toBeUndefined();
    expect(pausedStatus(d(true, 60, [condition("Progressing", "False", "ProgressDeadlineExceeded")]), NOW_MS).decided).toBeUndefined();
  });
});

describe("followUpMs", () => {
  const complete: DeploymentStatus = { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
  const old = replicaSet("old", { template: "v0" });
  it("the follow-up delay is 0 for a clean-up, the deadline for an unfinished rollout, and otherwise undefined", () => {
    expect(followUpMs(deployment({ historyLimit: 0, status: complete }), [old], NOW_MS).decided).toBe(0);
    expect(followUpMs(deployment({ historyLimit: 1, status: complete }), [old], NOW_MS).decided).toBeUndefined();
    expect(
      followUpMs(
        deployment({ historyLimit: 0, deadline: 60, status: { conditions: [condition("Progressing", "True", "ReplicaSetUpdated")] } }),
        [old],
        NOW_MS,
      ).decided,
    ).toBe(61_000);
  });
});
