// The steps of a rolling update within maxSurge and maxUnavailable.
import { describe, expect, it } from "vitest";
import type { CachedDeployment, CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import type { ReplicaSetSplit } from "../../../shared/controllers/deployment/replica-sets.ts";
import {
  cleanupUnhealthyReplicas,
  reconcileNewReplicaSet,
  scaleDownOldReplicaSets,
  shrinkBudget,
} from "../../../shared/controllers/deployment/rolling.ts";
import { deployment, OWNER, replicaSet } from "./builders.ts";

const sized = (name: string, size: number, available: number, age = 0): CachedReplicaSet =>
  replicaSet(name, { size, available, age, template: name });
const split = (old: readonly CachedReplicaSet[], newRS: CachedReplicaSet | undefined): ReplicaSetSplit => ({ oldRSs: old, newRS });
const sizes = (
  steps: readonly { readonly write: { readonly name: string; readonly replicas?: number } }[],
): readonly (readonly [string, number | undefined])[] => steps.map(({ write }) => [write.name, write.replicas] as const);

describe("reconcileNewReplicaSet", () => {
  const table = [
    { id: "[deployment T41]", surge: 0, old: 10, size: 0, want: undefined },
    { id: "[deployment T42]", surge: 2, old: 10, size: 0, want: 2 },
    { id: "[deployment T43]", surge: 2, old: 5, size: 0, want: 7 },
    { id: "[deployment T44]", surge: 2, old: 10, size: 2, want: undefined },
    { id: "[deployment T45]", surge: 2, old: 2, size: 11, want: 10 },
  ];
  it.each(table)(
    "$id scales the new ReplicaSet to $want of 10 replicas: maxSurge $surge, $old old pods, $size new pods",
    ({ surge, old, size, want }) => {
      const { decided: step } = reconcileNewReplicaSet(deployment({ replicas: 10, surge }), sized("new", size, 0, 1), [
        sized("old", old, 0),
      ]);
      expect(step?.write.replicas).toBe(want);
    },
  );

  it("writes the size with both annotations and records an Event", () => {
    const d = deployment({ replicas: 10, surge: 2 });
    expect(reconcileNewReplicaSet(d, sized("new", 0, 0, 1), [sized("old", 10, 10)]).decided).toEqual({
      write: {
        kind: "PatchReplicaSet",
        owner: OWNER,
        name: "new",
        uid: "uid-new",
        resourceVersion: "50",
        replicas: 2,
        annotations: { "deployment.kubernetes.io/desired-replicas": "10", "deployment.kubernetes.io/max-replicas": "12" },
      },
      note: { type: "Normal", reason: "ScalingReplicaSet", message: "Scaled up replica set new from 0 to 2" },
    });
  });
});

/**
 * The effect of one sync on the old ReplicaSets: both steps, as sync.ts runs them on a cluster where every write
 * succeeds.
 */
function reconcileOld(d: CachedDeployment, { oldRSs, newRS }: ReplicaSetSplit): readonly (readonly [string, number | undefined])[] {
  const { decided: budget } = shrinkBudget(d, { oldRSs, newRS });
  if (budget <= 0) return [];
  const unhealthy = cleanupUnhealthyReplicas(d, oldRSs, budget);
  if (unhealthy.guard) return sizes(unhealthy.steps);
  const after = oldRSs.map((rs) => {
    const step = unhealthy.steps.find(({ write }) => write.uid === rs.metadata.uid);
    return step?.write.replicas === undefined ? rs : { ...rs, spec: { ...rs.spec, replicas: step.write.replicas } };
  });
  return [...sizes(unhealthy.steps), ...sizes(scaleDownOldReplicaSets(d, { oldRSs: after, newRS }).decided)];
}

describe("old ReplicaSets", () => {
  const table: {
    id: string;
    unavailable: number;
    old: readonly [number, number];
    fresh: readonly [number, number];
    want: readonly number[];
  }[] = [
    { id: "[deployment T49]", unavailable: 0, old: [10, 10], fresh: [0, 0], want: [9] },
    { id: "[deployment T50]", unavailable: 2, old: [10, 10], fresh: [0, 0], want: [8] },
    { id: "[deployment T51]", unavailable: 2, old: [10, 8], fresh: [0, 0], want: [8] },
    { id: "[deployment T52]", unavailable: 2, old: [10, 9], fresh: [0, 0], want: [9, 8] },
    { id: "[deployment T53]", unavailable: 2, old: [8, 8], fresh: [2, 0], want: [] },
  ];
  it.each(table)("$id 10 replicas, maxUnavailable $unavailable, old $old, new $fresh → $want", ({ unavailable, old, fresh, want }) => {
    const d = deployment({ replicas: 10, unavailable });
    const got = reconcileOld(d, split([sized("old", ...old)], sized("new", ...fresh, 1)));
    expect(got).toEqual(want.map((replicas) => ["old", replicas]));
  });
});

describe("shrinkBudget", () => {
  it("counts unavailable new pods as missing, so that a rollout of broken pods removes no old ones", () => {
    // Upstream's example with 10 replicas, surge 3 and unavailable 2: 8 old pods, of which one is lost in a node failure, and 5 new pods
    // that never become available.
    const d = deployment({ replicas: 10, surge: 3, unavailable: 2 });
    expect(shrinkBudget(d, split([sized("old", 8, 7)], sized("new", 5, 0, 1))).decided).toBe(0);
    expect(shrinkBudget(d, split([sized("old", 8, 8)], sized("new", 5, 1, 1))).decided).toBe(1);
    // After a rollback, the broken pods are the old ones.
    expect(shrinkBudget(d, split([sized("broken", 5, 0, 1)], sized("new", 8, 7))).decided).toBe(4);
    expect(shrinkBudget(d, split([], sized("new", 8, 7))).decided).toBe(0);
  });
});

describe("cleanupUnhealthyReplicas", () => {
  const d = deployment({ replicas: 10, unavailable: 2 });
  const table = [
    { id: "[deployment T54]", available: 8, budget: 1, want: [9] },
    { id: "[deployment T54]", available: 8, budget: 3, want: [8] },
    { id: "[deployment T54]", available: 8, budget: 0, want: [] },
    { id: "[deployment T55]", available: 10, budget: 3, want: [] },
  ];
  it.each(table)("$id 10 old pods, $available of them available, budget $budget → $want", ({ available, budget, want }) => {
    const got = cleanupUnhealthyReplicas(d, [sized("old", 10, available)], budget);
    expect(sizes(got.steps)).toEqual(want.map((replicas) => ["old", replicas]));
    expect(got.guard).toBe(false);
  });

  it("scales down from the oldest to the youngest, and stops at the budget", () => {
    const got = cleanupUnhealthyReplicas(d, [sized("b", 3, 0, 2), sized("a", 2, 0, 1), sized("c", 4, 0, 3)], 4);
    expect(sizes(got.steps)).toEqual([
      ["a", 0],
      ["b", 1],
    ]);
  });

  it("stops once its budget is used, so that later invalid ReplicaSets cause no error", () => {
    const got = cleanupUnhealthyReplicas(d, [sized("a", 3, 1, 1), sized("b", 2, 3, 2)], 2);
    expect(sizes(got.steps)).toEqual([["a", 1]]);
    expect(got.guard).toBe(false);
  });

  it("stops at a ReplicaSet that reports more available pods than its size, after scaling down those before it", () => {
    const got = cleanupUnhealthyReplicas(d, [sized("a", 2, 1, 1), sized("b", 2, 3, 2), sized("c", 4, 0, 3)], 9);
    expect(sizes(got.steps)).toEqual([["a", 1]]);
    expect(got.guard).toBe(true);
  });
});

describe("scaleDownOldReplicaSets", () => {
  const table: { id: string; unavailable: number; old: readonly [number, number]; want: readonly number[] }[] = [
    { id: "[deployment T56]", unavailable: 0, old: [10, 10], want: [9] },
    { id: "[deployment T57]", unavailable: 2, old: [10, 10], want: [8] },
    { id: "[deployment T58]", unavailable: 2, old: [10, 8], want: [] },
    { id: "[deployment T59]", unavailable: 2, old: [0, 10], want: [] },
    { id: "[deployment T60]", unavailable: 2, old: [10, 1], want: [] },
  ];
  it.each(table)("$id 10 replicas, maxUnavailable $unavailable, old $old → $want", ({ unavailable, old, want }) => {
    const d = deployment({ replicas: 10, unavailable });
    expect(sizes(scaleDownOldReplicaSets(d, split([sized("old", ...old)], undefined)).decided)).toEqual(
      want.map((replicas) => ["old", replicas]),
    );
  });

  it("scales down the oldest ReplicaSet completely before the next", () => {
    const d = deployment({ replicas: 10, unavailable: 4 });
    const old = [sized("a", 2, 2, 1), sized("b", 5, 5, 2), sized("c", 3, 3, 3)];
    expect(sizes(scaleDownOldReplicaSets(d, split(old, undefined)).decided)).toEqual([
      ["a", 0],
      ["b", 3],
    ]);
  });
});

// deployment §18.3, percentage order checks: which ReplicaSet changes first if both bounds round to less than one pod.
describe("order of small rollouts", () => {
  interface State {
    readonly old: number;
    readonly fresh: number;
  }
  /** One sync on a cluster where all pods are available. */
  function step(d: CachedDeployment, { old, fresh }: State): State {
    const newRS = sized("new", fresh, fresh, 1);
    const oldRSs = [sized("old", old, old)];
    const { decided: grown } = reconcileNewReplicaSet(d, newRS, oldRSs);
    if (grown?.write.replicas !== undefined) return { old, fresh: grown.write.replicas };
    const shrunk = reconcileOld(d, split(oldRSs, newRS)).at(-1)?.[1];
    return { old: shrunk ?? old, fresh };
  }
  const table: { name: string; replicas: number; surge: string; unavailable: string; want: readonly State[] }[] = [
    {
      name: "2 replicas, maxUnavailable 1%, maxSurge 0%: old −1, new +1, repeated",
      replicas: 2,
      surge: "0%",
      unavailable: "1%",
      want: [
        { old: 1, fresh: 0 },
        { old: 1, fresh: 1 },
        { old: 0, fresh: 1 },
        { old: 0, fresh: 2 },
      ],
    },
    {
      name: "2 replicas, maxUnavailable 25%, maxSurge 1%: new +1, old −1, repeated",
      replicas: 2,
      surge: "1%",
      unavailable: "25%",
      want: [
        { old: 2, fresh: 1 },
        { old: 1, fresh: 1 },
        { old: 1, fresh: 2 },
        { old: 0, fresh: 2 },
      ],
    },
    {
      name: "1 replica, maxUnavailable 0%, maxSurge 1%: new +1, then old −1",
      replicas: 1,
      surge: "1%",
      unavailable: "0%",
      want: [
        { old: 1, fresh: 1 },
        { old: 0, fresh: 1 },
      ],
    },
  ];
  it.each(table)("a small rollout starts in upstream's order: $name", ({ replicas, surge, unavailable, want }) => {
    const d = deployment({ replicas, surge, unavailable });
    const got: State[] = [];
    let state: State = { old: replicas, fresh: 0 };
    for (let i = 0; i < want.length; i++) got.push((state = step(d, state)));
    expect(got).toEqual(want);
    expect(step(d, state)).toEqual(state);
  });
});
