// Decisions of the ReplicaSet controller: status, conditions, bursts and claims.
import { describe, expect, it } from "vitest";
import { getCondition, removeCondition, setReplicaSetCondition } from "../../../shared/kube/objects/conditions.ts";
import type { CachedPod, CachedReplicaSet, ReplicaSetStatus } from "../../../shared/kube/objects/cached.ts";
import { isActive } from "../../../shared/kube/objects/pod.ts";
import { compileSelector, type Selector } from "../../../shared/kube/selectors/selector.ts";
import type { Condition } from "../../../shared/kube/objects/wire.ts";
import { nextAvailabilityCheck } from "../../../shared/controllers/replicaset/availability.ts";
import { calculateStatus, statusWrite } from "../../../shared/controllers/replicaset/calculate-status.ts";
import { claimPods, terminatingPods } from "../../../shared/controllers/replicaset/claim-pods.ts";
import { manageReplicas } from "../../../shared/controllers/replicaset/manage-replicas.ts";
import { observe } from "../../../shared/controllers/replicaset/observe.ts";
import { REPLICA_SET } from "../../../shared/controllers/replicaset/kind.ts";
import { REPLICATION_CONTROLLER, convertRCtoRS } from "../../../shared/controllers/replication/conversion.ts";
import { NOW_MS, OWNER, ago, pod, rs } from "./builders.ts";

const NOW = "2026-03-01T10:00:00Z";

function counts(status: ReplicaSetStatus): readonly (number | undefined)[] {
  return [status.replicas, status.fullyLabeledReplicas, status.readyReplicas, status.availableReplicas, status.terminatingReplicas];
}

describe("calculateStatus", () => {
  const full = pod({ labels: { foo: "bar", extra: "1" } });
  const half = pod({ labels: { foo: "bar" } });
  const templateLabels = { foo: "bar", extra: "1" };
  const dying = pod({ deletionTimestamp: NOW });
  const table: {
    id: string;
    name: string;
    claimed: CachedPod[];
    terminating?: CachedPod[];
    owner?: CachedReplicaSet;
    want: (number | undefined)[];
  }[] = [
    { id: "[replicaset 71]", name: "one pod with all labels of the template", claimed: [full], want: [1, 1, 1, 1, undefined] },
    { id: "[replicaset 72]", name: "one pod without all labels of the template", claimed: [half], want: [1, 0, 1, 1, undefined] },
    {
      id: "[replicaset 73]",
      name: "two pods with all labels, none terminating",
      claimed: [full, full],
      terminating: [],
      want: [2, 2, 2, 2, 0],
    },
    { id: "[replicaset 74]", name: "two pods without all labels", claimed: [half, half], want: [2, 0, 2, 2, undefined] },
    {
      id: "[replicaset 75] [replicaset 108]",
      name: "one pod with and one without all labels",
      claimed: [full, half],
      want: [2, 1, 2, 2, undefined],
    },
    {
      id: "[replicaset 76]",
      name: "a pod that is not ready",
      claimed: [pod({ labels: templateLabels, phase: "Pending", ready: false })],
      want: [1, 1, 0, 0, undefined],
    },
    {
      id: "[replicaset 77]",
      name: "a ready pod that is not available yet",
      claimed: [full],
      owner: rs({ templateLabels, minReadySeconds: 3600 }),
      want: [1, 1, 1, 0, undefined],
    },
    { id: "[replicaset 78]", name: "one pod of a kind without terminatingReplicas", claimed: [full], want: [1, 1, 1, 1, undefined] },
    { id: "[replicaset 79]", name: "two terminating pods", claimed: [full], terminating: [dying, dying], want: [1, 1, 1, 1, 2] },
    {
      id: "[replicaset 105]",
      name: "one of three pods as available with minReadySeconds 3600",
      claimed: [pod({ ready: false }), pod({ ready: NOW }), pod({ ready: ago(7200) })],
      owner: rs({ minReadySeconds: 3600 }),
      want: [3, 3, 2, 1, undefined],
    },
  ];
  it.each(table)("$id counts $name", ({ claimed, terminating, owner = rs({ templateLabels }), want }) => {
    expect(counts(calculateStatus(owner, { claimed, ...(terminating && { terminating }), nowMs: NOW_MS }))).toEqual(want);
  });

  const failure: Condition = { type: "ReplicaFailure", status: "True", lastTransitionTime: ago(60) };
  const foreign: Condition = { type: "Mine", status: "True" };
  const conditionTable: { id: string; name: string; replicas: number; before?: Condition[]; error?: Error; want: Condition[] }[] = [
    {
      id: "[replicaset 80]",
      name: "set by a failed create",
      replicas: 2,
      error: new Error("no"),
      want: [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: "no", lastTransitionTime: NOW }],
    },
    {
      id: "[replicaset 81]",
      name: "set by a failed delete",
      replicas: 0,
      error: new Error("no"),
      want: [{ type: "ReplicaFailure", status: "True", reason: "FailedDelete", message: "no", lastTransitionTime: NOW }],
    },
    { id: "[replicaset 82]", name: "removed after a success", replicas: 1, before: [failure, foreign], want: [foreign] },
    {
      id: "[replicaset 83]",
      name: "unchanged after another failure",
      replicas: 2,
      before: [failure],
      error: new Error("other"),
      want: [failure],
    },
    { id: "[replicaset 84]", name: "absent without a failure", replicas: 1, want: [] },
    {
      id: "[replicaset 86]",
      name: "added to another client's condition",
      replicas: 2,
      before: [foreign],
      error: new Error("no"),
      want: [foreign, { type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: "no", lastTransitionTime: NOW }],
    },
  ];
  it.each(conditionTable)("$id the ReplicaFailure condition is $name", ({ replicas, before, error, want }) => {
    const owner = rs({ replicas, ...(before && { status: { conditions: before } }) });
    expect(calculateStatus(owner, { claimed: [pod()], ...(error && { manageError: error }), nowMs: NOW_MS }).conditions).toEqual(want);
  });

  it("[replicaset 85] [replicaset 87] finds, replaces and removes conditions by type", () => {
    expect([getCondition([failure], "ReplicaFailure"), getCondition([failure], "Mine")]).toEqual([failure, undefined]);
    expect(setReplicaSetCondition([failure, foreign], { ...failure, reason: "Other" })).toEqual([foreign, { ...failure, reason: "Other" }]);
    expect([removeCondition([], "Mine"), removeCondition([failure], "ReplicaFailure"), removeCondition([failure], "Mine")]).toEqual([
      [],
      [],
      [failure],
    ]);
  });
});

describe("statusWrite", () => {
  const stored: ReplicaSetStatus = {
    replicas: 1,
    fullyLabeledReplicas: 1,
    readyReplicas: 1,
    availableReplicas: 1,
    terminatingReplicas: 0,
    observedGeneration: 1,
  };
  const write = (owner: CachedReplicaSet): ReturnType<typeof statusWrite> =>
    statusWrite(owner, OWNER, calculateStatus(owner, { claimed: [pod()], terminating: [], nowMs: NOW_MS }));

  it("returns no write for an unchanged status", () => {
    expect(write(rs({ status: stored }))).toBeUndefined();
  });

  it("writes a new owner's first status in full, with the resourceVersion that it is based on", () => {
    expect(
      statusWrite(rs({ replicas: 0 }), OWNER, calculateStatus(rs({ replicas: 0 }), { claimed: [], terminating: [], nowMs: NOW_MS })),
    ).toEqual({
      kind: "UpdateStatus",
      owner: OWNER,
      resourceVersion: "10",
      status: {
        replicas: 0,
        fullyLabeledReplicas: 0,
        readyReplicas: 0,
        availableReplicas: 0,
        terminatingReplicas: 0,
        observedGeneration: 1,
        conditions: [],
      },
      absent: [],
    });
  });

  it.each([
    { name: "a changed count", owner: rs({ status: { ...stored, readyReplicas: 0 } }) },
    {
      name: "a missing terminatingReplicas",
      owner: rs({ status: { replicas: 1, fullyLabeledReplicas: 1, readyReplicas: 1, availableReplicas: 1, observedGeneration: 1 } }),
    },
    { name: "a new generation alone [replicaset 99]", owner: rs({ status: stored, generation: 2 }) },
    { name: "a removed condition", owner: rs({ status: { ...stored, conditions: [{ type: "ReplicaFailure", status: "True" }] } }) },
  ])("writes $name", ({ owner }) => {
    expect(write(owner)).toMatchObject({ kind: "UpdateStatus", status: { replicas: 1, observedGeneration: owner.metadata.generation } });
  });
});

describe("manageReplicas", () => {
  const decide = (
    owner: CachedReplicaSet,
    claimed: CachedPod[],
    options: { pending?: number; burstReplicas?: number } = {},
  ): ReturnType<typeof manageReplicas>["writes"] =>
    manageReplicas({ rs: owner, owner: OWNER, pending: options.pending ?? 0, unanswered: [] }, claimed, {
      related: [],
      nowMs: NOW_MS,
      ...(options.burstReplicas !== undefined && { burstReplicas: options.burstReplicas }),
    }).writes;
  const create = (count: number): object => ({ kind: "CreatePods", owner: OWNER, count, template: { generation: 1, digest: "k.1.d" } });
  const pods = (count: number): CachedPod[] => Array.from({ length: count }, (_, i) => pod({ uid: `u${i}`, name: `p${i}` }));

  it("[replicaset 26] creates 5 of 30 missing or deletes 5 of 30 surplus pods, with a burst of 5", () => {
    expect(decide(rs({ replicas: 30 }), [], { burstReplicas: 5 })).toEqual([create(5)]);
    expect(decide(rs({ replicas: 0 }), pods(30), { burstReplicas: 5 })).toHaveLength(5);
  });

  it("[replicaset 27] [replicaset 28] creates 12 missing pods in bursts of 5, 5 and 2, and 2 missing pods in one burst of at most 3", () => {
    const bursts = [0, 5, 10].map((have) => decide(rs({ replicas: 12 }), pods(have), { burstReplicas: 5 }));
    expect(bursts).toEqual([[create(5)], [create(5)], [create(2)]]);
    expect(decide(rs({ replicas: 2 }), [], { burstReplicas: 3 })).toEqual([create(2)]);
  });

  it("creates at most 500 by default, and reads absent replicas as 1", () => {
    expect(decide(rs({ replicas: 1200 }), [])).toEqual([create(500)]);
    const { replicas: _, ...spec } = rs().spec;
    expect(decide({ ...rs(), spec }, [])).toEqual([create(1)]);
  });

  it("[replicaset 22] [replicaset 37] creates and deletes nothing while a call may be in flight, for an owner being deleted, and when the count matches", () => {
    expect(decide(rs({ replicas: 2 }), [], { pending: 1 })).toEqual([]);
    expect(decide(rs({ replicas: 2, deletionTimestamp: NOW }), [])).toEqual([]);
    expect(decide(rs({ replicas: 2 }), pods(2))).toEqual([]);
  });

  it("deletes the unready pod with its uid and resourceVersion, and records the observed size", () => {
    const pods = [pod({ name: "a", uid: "1" }), pod({ name: "b", uid: "2", resourceVersion: "7", ready: false })];
    expect(decide(rs({ replicas: 1, generation: 4 }), pods)).toEqual([
      { kind: "DeletePod", owner: OWNER, name: "b", uid: "2", resourceVersion: "7", size: { generation: 4, replicas: 1 } },
    ]);
  });
});

describe("claimPods", () => {
  const compiled = compileSelector({ matchLabels: { foo: "bar" } });
  const selector: Selector = compiled.kind === "Invalid" ? { kind: "Nothing" } : compiled;
  const orphan = (fields: Parameters<typeof pod>[0] = {}): CachedPod => pod({ owner: null, ...fields });
  const observed = (owner: CachedReplicaSet, pods: CachedPod[], orphans: CachedPod[] = []): Parameters<typeof claimPods>[0] => ({
    kind: "Observed",
    owner: OWNER,
    rs: owner,
    selector,
    pods,
    orphans,
    pending: 0,
    unanswered: [],
  });

  it("[replicaset 44] counts three of five pods as active: those that are not finished", () => {
    expect([pod({ phase: "Succeeded" }), pod({ phase: "Failed" }), pod(), pod(), pod()].filter(isActive)).toHaveLength(3);
  });

  it("[replicaset 45] counts two of seven pods as terminating: those being deleted, if they match and have this owner", () => {
    const pods = [
      pod({ phase: "Succeeded" }),
      pod({ phase: "Failed" }),
      pod({ phase: "Pending", deletionTimestamp: NOW }),
      pod({ deletionTimestamp: NOW }),
      pod(),
      pod(),
      pod(),
    ];
    expect(terminatingPods({ owner: OWNER, selector, pods })).toHaveLength(2);
    expect(
      terminatingPods({
        owner: OWNER,
        selector,
        pods: [
          pod({ deletionTimestamp: NOW, labels: {} }),
          pod({ deletionTimestamp: NOW, owner: { kind: "ReplicaSet", name: "rs", uid: "x" } }),
        ],
      }),
    ).toEqual([]);
  });

  it("[replicaset 46] claims the matching pods that it controls, releases the others, and adopts matching orphans", () => {
    const mine = pod({ uid: "1" });
    const { claimed, writes } = claimPods(
      observed(
        rs(),
        [mine, pod({ uid: "2", labels: { foo: "x" } }), pod({ uid: "3", owner: { kind: "ReplicaSet", name: "rs", uid: "other" } })],
        [orphan({ uid: "4", name: "o" }), orphan({ uid: "5", labels: { foo: "x" } })],
      ),
    );
    expect(claimed).toEqual([mine]);
    expect(writes).toEqual([
      { kind: "Release", owner: OWNER, resource: "pods", name: "pod", uid: "2" },
      { kind: "Adopt", owner: OWNER, resource: "pods", name: "o", uid: "4" },
    ]);
  });

  it("[replicaset P19] [replicaset P20] does not adopt orphans that are finished, being deleted or in another namespace, and claims nothing while being deleted itself", () => {
    const none = { claimed: [], writes: [], why: [] };
    expect(
      claimPods(observed(rs(), [], [orphan({ phase: "Failed" }), orphan({ deletionTimestamp: NOW }), orphan({ namespace: "other" })])),
    ).toEqual(none);
    expect(claimPods(observed(rs({ deletionTimestamp: NOW }), [pod({ labels: {} })], [orphan()]))).toEqual(none);
    expect(claimPods(observed(rs(), [pod({ deletionTimestamp: NOW, labels: {} })]))).toEqual(none);
  });

  it("[replicaset 35] [replicaset 96] [replicaset 97] writes nothing for a pod that it controls, and ignores a pod of another controller", () => {
    expect(claimPods(observed(rs(), [pod()])).writes).toEqual([]);
    expect(claimPods(observed(rs(), [pod({ owner: { kind: "ReplicaSet", name: "x", uid: "x" } })]))).toEqual({
      claimed: [],
      writes: [],
      why: [],
    });
  });
});

describe("nextAvailabilityCheck", () => {
  const owner = rs({ minReadySeconds: 5 });
  const status = (readyReplicas: number, availableReplicas: number): ReplicaSetStatus => ({ readyReplicas, availableReplicas });
  const at = { statusNowMs: NOW_MS, nowMs: NOW_MS };
  const table = [
    {
      name: "[replicaset 18] nextAvailabilityCheck is the earliest of three times",
      claimed: [pod({ ready: NOW }), pod({ ready: ago(2) }), pod({ ready: "2026-03-01T09:59:55.700Z" })],
      status: status(3, 0),
      want: { kind: "again", afterMs: 700 },
    },
    {
      name: "nextAvailabilityCheck is after minReadySeconds for a ready pod without a time",
      claimed: [pod()],
      status: status(1, 0),
      want: { kind: "again", afterMs: 5000 },
    },
    {
      name: "nextAvailabilityCheck returns done if there is no pod to wait for",
      claimed: [pod({ ready: ago(9) })],
      status: status(1, 1),
      want: { kind: "done" },
    },
  ];
  it.each(table)("$name", ({ claimed, status: now, want }) => {
    expect(nextAvailabilityCheck(owner, now, { claimed, ...at }).next).toEqual(want);
  });

  it("ignores a pod that is already available", () => {
    const claimed = [pod({ ready: ago(9) }), pod({ ready: ago(1) })];
    expect(nextAvailabilityCheck(owner, status(2, 1), { claimed, ...at }).next).toEqual({ kind: "again", afterMs: 4000 });
  });

  it("the check is due immediately if the time passed during the status write, and never without minReadySeconds", () => {
    expect(
      nextAvailabilityCheck(owner, status(1, 0), { claimed: [pod({ ready: ago(4) })], statusNowMs: NOW_MS, nowMs: NOW_MS + 3000 }).next,
    ).toEqual({ kind: "again", afterMs: 0 });
    expect(nextAvailabilityCheck(rs(), status(1, 0), { claimed: [pod({ ready: ago(4) })], ...at }).next).toEqual({ kind: "done" });
  });
});

describe("observe", () => {
  const row = { key: "default/rs", uid: "rs-1", rv: "10", gone: false, object: rs() };
  const snapshot = { dependents: [], orphans: [], intents: [], failures: 0 };

  it("omits rows whose delete has succeeded, and waits only for pending calls", () => {
    const dependents = [pod({ uid: "1" }), pod({ uid: "2" })].map((object, i) => ({
      key: "default/pod",
      uid: object.uid,
      rv: "1",
      gone: i === 0,
      object,
    }));
    const intent = { id: "c:x", verb: "create", name: "x", token: "t", deadlineMs: 0 } as const;
    expect(observe({ ...snapshot, primary: row, dependents, intents: [{ ...intent, state: "planned" }] }, REPLICA_SET)).toMatchObject({
      pods: [{ uid: "2" }],
      pending: 0,
    });
    expect(observe({ ...snapshot, primary: row, intents: [{ ...intent, state: "pending" }] }, REPLICA_SET)).toMatchObject({
      pending: 1,
    });
    expect(observe({ ...snapshot, primary: { ...row, gone: true } }, REPLICA_SET)).toEqual({ kind: "Gone" });
  });

  it("reads a ReplicationController's map as matchLabels, and its absence as an empty selector", () => {
    const { selector: _, ...spec } = rs().spec;
    const rc = { ...rs(), spec: { ...spec, selector: { foo: "bar" } } };
    expect(convertRCtoRS(rc)).toEqual(rs());
    expect(REPLICATION_CONTROLLER.toReplicaSet({ ...rc, spec }).spec).not.toHaveProperty("selector");
  });
});
