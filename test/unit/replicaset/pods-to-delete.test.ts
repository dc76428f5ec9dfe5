// Ranking of the pods to delete.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CachedPod } from "../../../shared/kube/objects/cached.ts";
import {
  ageBucket,
  comparePods,
  deletionAgeRatios,
  deletionCost,
  getPodsToDelete,
  relatedPods,
} from "../../../shared/controllers/replicaset/pods-to-delete.ts";
import { choosesVictims } from "../../../shared/controllers/replicaset/manage-replicas.ts";
import { NOW_MS, ago, pod, rs } from "./builders.ts";

const HOUR = 3600;
const MONTH = 30 * 24 * HOUR;

const unscheduled = pod({ name: "unscheduled", uid: "1", phase: "Pending", nodeName: "", ready: false });
const pending = pod({ name: "pending", uid: "2", phase: "Pending", ready: false });
const notReady = pod({ name: "notReady", uid: "3", ready: false });
const ready1 = pod({ name: "ready1", uid: "4" });
const ready2 = pod({ name: "ready2", uid: "5", nodeName: "n2" });

function names(pods: readonly CachedPod[]): readonly string[] {
  return pods.map(({ name }) => name);
}

describe("related pods", () => {
  const own = [pod({ uid: "a" }), pod({ uid: "b" })];
  const sibling = pod({ uid: "c", labels: { foo: "baz" } });
  const unrelated = pod({ uid: "d", labels: { x: "y" } });
  const table = [
    {
      id: "[replicaset 47] [replicaset 50]",
      name: "include a pod whose owner is being deleted, and not an unrelated pod",
      siblings: [rs({ deletionTimestamp: ago(1) })],
      pods: [own[0], unrelated],
      want: ["a"],
    },
    {
      id: "[replicaset 48] [replicaset 51]",
      name: "include own pods, and not an unrelated pod",
      siblings: [rs()],
      pods: [...own, unrelated],
      want: ["a", "b"],
    },
    {
      id: "[replicaset 49] [replicaset 52]",
      name: "include own pods and the sibling's",
      siblings: [rs(), rs({ uid: "rs-2", selector: { matchLabels: { foo: "baz" } } })],
      pods: [...own, sibling, unrelated],
      want: ["a", "b", "c"],
    },
  ];
  it.each(table)("$id $name", ({ siblings, pods, want }) => {
    expect(
      relatedPods(
        siblings,
        pods.filter((each) => each !== undefined),
      ).map(({ uid }) => uid),
    ).toEqual(want);
  });

  it("skips a sibling with an invalid selector, and counts no pod twice", () => {
    const invalid = rs({ uid: "rs-2", selector: { matchExpressions: [{ key: "a", operator: "Near" }] } });
    expect(relatedPods([rs(), invalid], [...own, ...own])).toEqual(own);
  });
});

describe("getPodsToDelete", () => {
  const table = [
    { id: "[replicaset 53]", name: "selects no pods from an empty list", pods: [], count: 0, want: [] },
    {
      id: "[replicaset 54]",
      name: "selects all pods in their order if all are deleted",
      pods: [ready1, unscheduled, notReady],
      count: 3,
      want: ["ready1", "unscheduled", "notReady"],
    },
    { id: "[replicaset 55]", name: "selects the pod that is not ready", pods: [ready1, notReady], count: 1, want: ["notReady"] },
    { id: "[replicaset 56]", name: "selects the pod without a node", pods: [pending, unscheduled], count: 1, want: ["unscheduled"] },
    {
      id: "[replicaset 57]",
      name: "selects both pods that are not ready",
      pods: [ready1, pod({ name: "x", uid: "6", ready: false }), notReady],
      count: 2,
      want: ["notReady", "x"],
    },
    { id: "[replicaset 59]", name: "selects the pending pod", pods: [notReady, pending], count: 1, want: ["pending"] },
    {
      id: "[replicaset 60]",
      name: "selects the first three of five pods",
      pods: [ready1, ready2, notReady, pending, unscheduled],
      count: 3,
      want: ["unscheduled", "pending", "notReady"],
    },
  ];
  it.each(table)("$id $name", ({ pods, count, want }) => {
    expect(names(getPodsToDelete(pods, [], { count, nowMs: NOW_MS }).victims)).toEqual(want);
  });

  it("[replicaset 58] chooses the pod on the node with more related pods", () => {
    const related = [
      pod({ uid: "r1", nodeName: "n1" }),
      pod({ uid: "r2", nodeName: "n2" }),
      pod({ uid: "r3", nodeName: "n2" }),
      pod({ uid: "r4", nodeName: "n1", phase: "Failed" }),
      pod({ uid: "r5", nodeName: "n1", phase: "Succeeded" }),
    ];
    expect(names(getPodsToDelete([ready1, ready2], related, { count: 1, nowMs: NOW_MS }).victims)).toEqual(["ready2"]);
  });

  it("[replicaset 61] orders the ten pods of upstream's test, for every input order", () => {
    const sorted = [
      unscheduled,
      pending,
      pod({ name: "unknown", uid: "u", phase: "Unknown", ready: false }),
      notReady,
      pod({ name: "readyNoTime", uid: "t" }),
      pod({ name: "readyNow", uid: "n", ready: ago(1) }),
      pod({ name: "readyLonger3", uid: "l", ready: ago(HOUR), restarts: 3, creationTimestamp: ago(HOUR) }),
      pod({ name: "restarts2sidecar2", uid: "z", ready: ago(MONTH), restarts: 2, sidecarRestarts: 2, creationTimestamp: ago(2 * HOUR) }),
      pod({ name: "restarts2", uid: "y", ready: ago(MONTH), restarts: 2, creationTimestamp: ago(2 * HOUR) }),
      pod({ name: "oldest", uid: "x", ready: ago(MONTH), creationTimestamp: ago(2 * MONTH) }),
    ];
    for (let shift = 0; shift < 20; shift++) {
      const shuffled = sorted.map((_, i) => sorted[(i * 7 + shift) % 10]).filter((each) => each !== undefined);
      expect(names(getPodsToDelete(shuffled, [], { count: 9, nowMs: NOW_MS }).victims)).toEqual(names(sorted).slice(0, 9));
    }
  });

  it("[replicaset P15] chooses the same pod of three cyclically ordered ones for every input order", () => {
    const a = pod({ uid: "3", ready: ago(5 * HOUR), restarts: 2 }); // a ranks before b: more restarts, and ready since the same time
    const b = pod({ uid: "1", ready: ago(5 * HOUR) }); // b ranks before c: a lower uid, and ready for about as long
    const c = pod({ uid: "2", ready: ago(8 * HOUR) }); // c ranks before a: a lower uid, and ready for about as long
    const orders = [
      [a, b, c],
      [a, c, b],
      [b, a, c],
      [b, c, a],
      [c, a, b],
      [c, b, a],
    ];
    const victims = orders.map((pods) =>
      getPodsToDelete(pods, [], { count: 1, nowMs: NOW_MS })
        .victims.map(({ uid }) => uid)
        .join(),
    );
    expect(new Set(victims).size).toBe(1);
  });

  it("[replicaset P15] chooses the same pods for every input order", () => {
    const arbitrary = fc.record({
      uid: fc.uuid(),
      ready: fc.constantFrom(true, false, ago(1), ago(60), ago(HOUR), ago(5 * HOUR), ago(8 * HOUR)),
      restarts: fc.nat(2),
      creationTimestamp: fc.constantFrom(ago(60), ago(5 * HOUR), ago(8 * HOUR)),
      nodeName: fc.constantFrom("", "n1", "n2"),
    });
    fc.assert(
      fc.property(fc.uniqueArray(arbitrary, { minLength: 3, maxLength: 12, selector: ({ uid }) => uid }), (fields) => {
        const pods = fields.map((each) => pod(each));
        const options = { count: Math.floor(pods.length / 2), nowMs: NOW_MS };
        expect(getPodsToDelete(pods.toReversed(), pods, options)).toEqual(getPodsToDelete(pods, pods, options));
      }),
    );
  });
});

describe("comparePods", () => {
  interface Case {
    readonly id: string;
    readonly name: string;
    readonly first: CachedPod;
    readonly second: CachedPod;
    readonly ranks?: readonly [number, number];
    readonly equal?: true;
  }
  const runningReady = pod({ ready: ago(0) });
  const table: Case[] = [
    { id: "[replicaset 62]", name: "a pod equals itself", first: unscheduled, second: unscheduled, equal: true },
    {
      id: "[replicaset 62]",
      name: "two unscheduled pods created 5 h and 8 h ago are equal",
      first: pod({ nodeName: "", phase: "Pending", ready: false, creationTimestamp: ago(5 * HOUR) }),
      second: pod({ nodeName: "", phase: "Pending", ready: false, creationTimestamp: ago(8 * HOUR) }),
      equal: true,
    },
    {
      id: "[replicaset 62]",
      name: "pods that are ready for 5 h and 8 h are equal",
      first: pod({ ready: ago(5 * HOUR) }),
      second: pod({ ready: ago(8 * HOUR) }),
      equal: true,
    },
    { id: "[replicaset 63]", name: "unscheduled before pending, whatever the rank", first: unscheduled, second: pending, ranks: [1, 2] },
    {
      id: "[replicaset 63]",
      name: "pending before unknown",
      first: pending,
      second: pod({ phase: "Unknown", ready: false }),
      ranks: [1, 2],
    },
    {
      id: "[replicaset 63]",
      name: "unknown before not ready",
      first: pod({ phase: "Unknown", ready: false }),
      second: notReady,
      ranks: [1, 2],
    },
    { id: "[replicaset 64]", name: "not ready before ready without a time", first: notReady, second: pod() },
    { id: "[replicaset 64]", name: "ready without a time before ready now", first: pod(), second: pod({ ready: ago(1) }) },
    {
      id: "[replicaset 64]",
      name: "ready now before ready for a month",
      first: pod({ ready: ago(1) }),
      second: pod({ ready: ago(MONTH) }),
    },
    {
      id: "[replicaset 65]",
      name: "a higher rank first, even against a pod without a ready time",
      first: pod({ ready: ago(1) }),
      second: pod(),
      ranks: [2, 1],
    },
    {
      id: "[replicaset 65]",
      name: "a higher rank takes precedence over more restarts",
      first: pod({ ready: ago(1) }),
      second: pod({ ready: ago(1), restarts: 9001 }),
      ranks: [2, 1],
    },
    {
      id: "[replicaset 65]",
      name: "a higher rank takes precedence over a younger age",
      first: pod({ ready: ago(MONTH), creationTimestamp: ago(MONTH) }),
      second: runningReady,
      ranks: [2, 1],
    },
    { id: "[replicaset 66]", name: "more restarts first", first: pod({ ready: ago(1), restarts: 9001 }), second: pod({ ready: ago(1) }) },
    {
      id: "[replicaset 66]",
      name: "more restarts of a sidecar first",
      first: pod({ ready: ago(1), restarts: 1, sidecarRestarts: 9001 }),
      second: pod({ ready: ago(1), restarts: 1 }),
    },
    {
      id: "[replicaset 67]",
      name: "created now before created a month ago",
      first: pod({ ready: ago(60), creationTimestamp: ago(0) }),
      second: pod({ ready: ago(60), creationTimestamp: ago(MONTH) }),
    },
    {
      id: "[replicaset 68]",
      name: "a lower deletion cost takes precedence over a higher rank",
      first: pod({ deletionCost: "10" }),
      second: pod({ deletionCost: "100" }),
      ranks: [1, 2],
    },
    {
      id: "[replicaset 69]",
      name: "ready for 2 h before ready for 5 h",
      first: pod({ ready: ago(2 * HOUR), uid: "z" }),
      second: pod({ ready: ago(5 * HOUR), uid: "a" }),
    },
    {
      id: "[replicaset 101]",
      name: "a lower deletion cost first, in spite of fewer restarts",
      first: pod({ deletionCost: "100" }),
      second: pod({ deletionCost: "1000", restarts: 5 }),
    },
    {
      id: "[replicaset 101]",
      name: "more restarts first at equal deletion cost",
      first: pod({ deletionCost: "100", restarts: 5 }),
      second: pod({ deletionCost: "100" }),
    },
    { id: "[replicaset 101]", name: "more restarts first without a deletion cost", first: pod({ restarts: 5 }), second: pod() },
  ];
  it.each(table)("$id orders pods: $name", ({ first, second, ranks: [rankA, rankB] = [1, 1], equal }) => {
    const forth = Math.sign(comparePods(first, second, { rankA, rankB, nowMs: NOW_MS }));
    const back = Math.sign(comparePods(second, first, { rankA: rankB, rankB: rankA, nowMs: NOW_MS }));
    expect([forth, back]).toEqual(equal ? [0, 0] : [-1, 1]);
  });

  it("compares uids within one bucket before restarts", () => {
    const first = pod({ uid: "a", ready: ago(8 * HOUR) });
    const second = pod({ uid: "b", ready: ago(5 * HOUR), restarts: 9 });
    expect(comparePods(first, second, { rankA: 0, rankB: 0, nowMs: NOW_MS })).toBeLessThan(0);
  });
});

describe("helpers", () => {
  it("parses a deletion cost as upstream does", () => {
    const costs = ["10", "-5", "0", "2147483647", "-2147483648", "2147483648", "+1", "08", "", "1.5", "x"];
    expect(costs.map((cost) => deletionCost(pod({ deletionCost: cost })))).toEqual([10, -5, 0, 2147483647, -2147483648, 0, 0, 0, 0, 0, 0]);
    expect(deletionCost(pod())).toBe(0);
  });

  it("puts ages into buckets at the bounds of §8.3", () => {
    expect([0, -1, 1_073, 1_074, 2 * HOUR * 1000, 5 * HOUR * 1000, 8 * HOUR * 1000].map(ageBucket)).toEqual([-1, -1, 29, 30, 42, 44, 44]);
  });

  it("reads the siblings' pods only when there is a choice", () => {
    const two = [pod({ uid: "a" }), pod({ uid: "b" })];
    const ask = (replicas: number, pending = 0, deletionTimestamp?: string): boolean =>
      choosesVictims({ rs: rs({ replicas, ...(deletionTimestamp !== undefined && { deletionTimestamp }) }), pending }, two);
    expect([ask(1), ask(0), ask(2), ask(3), ask(1, 1), ask(1, 0, ago(1))]).toEqual([true, false, false, false, false, false]);
  });
});

describe("deletionAgeRatios", () => {
  const aged = (uid: string, hours: number, ready = true): CachedPod =>
    pod({ uid, creationTimestamp: ago(hours * HOUR), ...(!ready && { ready }) });
  const table = [
    {
      name: "multiples of the age of the youngest ready pod",
      pods: [aged("a", 8), aged("b", 2), aged("c", 5)],
      victims: ["a", "c"],
      want: [4, 2],
    },
    {
      name: "no ratio for an unready pod, which also is not treated as the youngest",
      pods: [aged("a", 8), aged("b", 1, false)],
      victims: ["a", "b"],
      want: [1],
    },
    { name: "no ratio without another pod", pods: [aged("b", 1, false)], victims: ["b"], want: [] },
    { name: "no ratio if the youngest pod was created just now", pods: [aged("a", 8), aged("b", 0)], victims: ["a"], want: [] },
  ];
  it.each(table)("deletionAgeRatios has $name", ({ pods, victims, want }) => {
    expect(deletionAgeRatios(pods, new Set(victims), NOW_MS)).toEqual(want);
  });
});
