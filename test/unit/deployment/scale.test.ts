// Proportional scaling of a Deployment during a rollout.
import { describe, expect, it } from "vitest";
import type { CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import { replicaSetFraction } from "../../../shared/controllers/deployment/proportional-scaling.ts";
import { isSaturated, scalingEvent, scale } from "../../../shared/controllers/deployment/scale.ts";
import { deployment, OWNER, replicaSet } from "./builders.ts";

/** Name and size; then the fields that differ from the state after scaling to the old R. v1 is the oldest. */
type Before = readonly [name: string, size: number, more?: { readonly desired?: number; readonly available?: number }];
interface Case {
  readonly id: string;
  readonly from: number;
  readonly to: number;
  readonly surge?: readonly [from: number, to: number];
  readonly unavailable?: number;
  /** The ReplicaSets, youngest first, as in the specification. */
  readonly before: readonly Before[];
  readonly hasNew?: boolean;
  readonly want: readonly number[];
  /** Names of the written ReplicaSets, in order. */
  readonly written?: readonly string[];
}

const CASES: readonly Case[] = [
  { id: "[deployment T22]", from: 10, to: 12, before: [["v1", 10]], want: [12] },
  { id: "[deployment T23]", from: 10, to: 5, before: [["v1", 10]], want: [5] },
  {
    id: "[deployment T24]",
    from: 5,
    to: 10,
    before: [
      ["v2", 2],
      ["v1", 3],
    ],
    want: [4, 6],
    written: ["v1", "v2"],
  },
  {
    id: "[deployment T25]",
    from: 5,
    to: 3,
    before: [
      ["v2", 2],
      ["v1", 3],
    ],
    want: [1, 2],
    written: ["v1", "v2"],
  },
  {
    id: "[deployment T26]",
    from: 9,
    to: 4,
    before: [
      ["v2", 8],
      ["v1", 1],
    ],
    want: [4, 0],
  },
  {
    id: "[deployment T27]",
    from: 7,
    to: 10,
    before: [
      ["v3", 2],
      ["v2", 3],
      ["v1", 2],
    ],
    want: [3, 4, 3],
  },
  {
    id: "[deployment T28]",
    from: 13,
    to: 8,
    before: [
      ["v3", 2],
      ["v2", 8],
      ["v1", 3],
    ],
    want: [1, 5, 2],
  },
  {
    id: "[deployment T29a]",
    from: 3,
    to: 4,
    before: [
      ["v3", 1],
      ["v2", 1],
      ["v1", 1],
    ],
    want: [2, 1, 1],
  },
  {
    id: "[deployment T29b]",
    from: 3,
    to: 2,
    before: [
      ["v3", 1],
      ["v2", 1],
      ["v1", 1],
    ],
    want: [1, 1, 0],
  },
  {
    id: "[deployment T30]",
    from: 5,
    to: 5,
    before: [
      ["v3", 2],
      ["v2", 1, { desired: 3 }],
      ["v1", 1],
    ],
    want: [2, 2, 1],
    written: ["v2"],
  },
  {
    id: "[deployment T31]",
    from: 4,
    to: 5,
    hasNew: false,
    before: [
      ["v2", 2],
      ["v1", 2],
    ],
    want: [3, 2],
    written: ["v2", "v1"],
  },
  {
    id: "[deployment T32]",
    from: 6,
    to: 0,
    before: [
      ["v3", 3],
      ["v2", 2],
      ["v1", 1],
    ],
    want: [0, 0, 0],
    written: ["v3", "v2", "v1"],
  },
  {
    id: "[deployment T33]",
    from: 6,
    to: 6,
    before: [
      ["v3", 0],
      ["v2", 0],
      ["v1", 0],
    ],
    want: [6, 0, 0],
    written: ["v3"],
  },
  {
    id: "[deployment T34]",
    from: 10,
    to: 20,
    surge: [2, 2],
    before: [
      ["v2", 6],
      ["v1", 6],
    ],
    want: [11, 11],
  },
  {
    id: "[deployment T35]",
    from: 10,
    to: 50,
    surge: [3, 6],
    before: [
      ["v2", 5],
      ["v1", 8],
    ],
    want: [22, 34],
  },
  {
    id: "[deployment T36]",
    from: 10,
    to: 14,
    hasNew: false,
    before: [
      ["v2", 7],
      ["v1", 3],
    ],
    want: [10, 4],
  },
  {
    id: "[deployment T37]",
    from: 2,
    to: 2,
    surge: [1, 1],
    unavailable: 1,
    before: [
      ["v2", 2, { available: 0 }],
      ["v1", 1],
    ],
    want: [2, 1],
    written: [],
  },
  {
    id: "[deployment T38]",
    from: 10,
    to: 30,
    surge: [3, 3],
    unavailable: 2,
    before: [
      ["v2", 5],
      ["v1", 8],
    ],
    want: [13, 20],
  },
  {
    id: "[deployment T39]",
    from: 100,
    to: 120,
    surge: [20, 20],
    before: [
      ["v2", 20],
      ["v1", 100],
    ],
    want: [23, 117],
    written: ["v1", "v2"],
  },
];

describe("scale", () => {
  it.each(CASES)(
    "$id scales proportionally from $from to $to replicas",
    ({ from, to, surge = [0, 0], unavailable = 0, before, hasNew = true, want, written }) => {
      const rss = before.map(([name, size, more], index): CachedReplicaSet => {
        const desired = more?.desired ?? from;
        return replicaSet(name, { size, available: more?.available ?? 0, desired, max: desired + surge[0], age: before.length - index });
      });
      const d = deployment({ replicas: to, surge: surge[1], unavailable, status: { replicas: from } });
      const [newRS, ...rest] = rss;
      const oldRSs = (hasNew ? rest : rss).toReversed();
      const { decided: steps } = scale(d, { newRS: hasNew ? newRS : undefined, oldRSs });

      const sizeOf = (rs: CachedReplicaSet): number | undefined =>
        steps.find(({ write }) => write.uid === rs.metadata.uid)?.write.replicas ?? rs.spec.replicas;
      expect(rss.map(sizeOf)).toEqual(want);
      if (written !== undefined) expect(steps.map(({ write }) => write.name)).toEqual(written);
      // Written ReplicaSets carry the new desired size, so that a retry skips them.
      const wanted = {
        "deployment.kubernetes.io/desired-replicas": String(to),
        "deployment.kubernetes.io/max-replicas": String(to + surge[1]),
      };
      for (const { write } of steps) {
        const rs = rss.find(({ metadata }) => metadata.uid === write.uid);
        expect({ ...rs?.metadata.annotations, ...write.annotations }).toMatchObject(wanted);
      }
    },
  );

  it("updates the size annotations of unchanged ReplicaSets without an Event", () => {
    const d = deployment({ replicas: 10, surge: 2 });
    const newRS = replicaSet("v2", { size: 2, age: 1, desired: 9, max: 11 });
    const { decided: steps } = scale(d, { newRS, oldRSs: [replicaSet("v1", { size: 10, desired: 10, max: 11 })] });
    // There are 12 − 12 = 0 replicas to add: sizes stay, annotations are updated.
    expect(steps).toEqual([
      {
        write: {
          kind: "PatchReplicaSet",
          owner: OWNER,
          name: "v1",
          uid: "uid-v1",
          resourceVersion: "50",
          annotations: { "deployment.kubernetes.io/max-replicas": "12" },
        },
      },
      {
        write: {
          kind: "PatchReplicaSet",
          owner: OWNER,
          name: "v2",
          uid: "uid-v2",
          resourceVersion: "50",
          annotations: { "deployment.kubernetes.io/desired-replicas": "10", "deployment.kubernetes.io/max-replicas": "12" },
        },
      },
    ]);
  });

  it("scales old ReplicaSets to 0 once the new one is saturated, youngest first", () => {
    const d = deployment({ replicas: 3, surge: 1 });
    const newRS = replicaSet("v3", { size: 3, available: 3, desired: 3, age: 3 });
    const { decided: steps } = scale(d, { newRS, oldRSs: [replicaSet("v1", { size: 2, age: 1 }), replicaSet("v2", { size: 1, age: 2 })] });
    expect(steps.map(({ write, note }) => [write.name, write.replicas, note?.message])).toEqual([
      ["v2", 0, "Scaled down replica set v2 from 1 to 0"],
      ["v1", 0, "Scaled down replica set v1 from 2 to 0"],
    ]);
  });

  it("writes old ReplicaSets first, youngest first, if no replicas are to be added", () => {
    const d = deployment({ replicas: 6 });
    const newRS = replicaSet("v3", { size: 3, desired: 5, age: 3 });
    const oldRSs = [replicaSet("v1", { size: 2, desired: 5, age: 1 }), replicaSet("v2", { size: 1, desired: 5, age: 2 })];
    expect(scale(d, { newRS, oldRSs }).decided.map(({ write }) => write.name)).toEqual(["v2", "v1", "v3"]);
  });

  it("leaves several active ReplicaSets of a Recreate Deployment unchanged", () => {
    const d = deployment({ replicas: 4, strategy: "Recreate" });
    expect(scale(d, { newRS: replicaSet("v2", { size: 1, age: 1 }), oldRSs: [replicaSet("v1", { size: 1 })] }).decided).toEqual([]);
  });

  it("never adds or removes more replicas than remain, and never scales below 0", () => {
    const sizesOf = (replicas: number, a: Parameters<typeof replicaSet>[1], b: Parameters<typeof replicaSet>[1]): readonly unknown[] => {
      const rss = [replicaSet("a", { ...a, age: 1 }), replicaSet("b", b)];
      const { decided: steps } = scale(deployment({ replicas }), { newRS: undefined, oldRSs: rss });
      return rss.map((rs) => steps.find(({ write }) => write.name === rs.metadata.name)?.write.replicas ?? rs.spec.replicas);
    };
    // a's share would be 50 − 5 = 45, but only 10 − 6 = 4 replicas are to be added; none is left for b.
    expect(sizesOf(10, { size: 5, max: 1 }, { size: 1, max: 6 })).toEqual([9, 1]);
    // a's share would be 1 − 10 = −9, but only 7 replicas are to be removed.
    expect(sizesOf(5, { size: 10, max: 100 }, { size: 2, max: 100 })).toEqual([3, 2]);
    // Without sizes from which to compute shares, the largest ReplicaSet takes the whole difference: 1 − 2, limited to 0.
    expect(sizesOf(0, { size: 1 }, { size: 1 })).toEqual([0, 0]);
    expect(sizesOf(1, { size: 2 }, { size: 2 })).toEqual([2, 0]);
  });

  it("scales the newest old ReplicaSet if none is active and no new one exists, and writes nothing without ReplicaSets", () => {
    const d = deployment({ replicas: 4 });
    const { decided: steps } = scale(d, { newRS: undefined, oldRSs: [replicaSet("v1", { age: 1 }), replicaSet("v2", { age: 2 })] });
    expect(steps.map(({ write }) => [write.name, write.replicas])).toEqual([["v2", 4]]);
    expect(scale(d, { newRS: undefined, oldRSs: [] }).decided).toEqual([]);
  });

  it("does not repair annotations of a single ReplicaSet whose size fits (quirk Q3)", () => {
    expect(scale(deployment({ replicas: 4 }), { newRS: replicaSet("v1", { size: 4, desired: 9 }), oldRSs: [] }).decided).toEqual([]);
  });
});

describe("replicaSetFraction", () => {
  const table: { id: string; size: number; replicas: number; surge: number; max?: number; status?: number; want: number }[] = [
    { id: "[deployment T40a]", size: 10, replicas: 0, surge: 0, status: 0, want: -10 },
    { id: "[deployment T40b]", size: 5, replicas: 10, surge: 0, status: 0, want: 0 },
    { id: "[deployment T40c]", size: 5, replicas: 10, surge: 0, max: 0, status: 0, want: 0 },
    { id: "[deployment T40d]", size: 50, replicas: 120, surge: 0, status: 100, want: 10 },
    { id: "[deployment T40e]", size: 50, replicas: 120, surge: 0, max: 0, status: 100, want: 10 },
    { id: "[deployment T40f]", size: 50, replicas: 120, surge: 0, max: 100, want: 10 },
    { id: "[deployment T40g]", size: 50, replicas: 120, surge: 10, max: 110, want: 9 },
    { id: "[deployment T40h]", size: 6, replicas: 10, surge: 0, max: 12, want: -1 },
    { id: "[deployment T40i]", size: 50, replicas: 100, surge: 10, max: 130, want: -8 },
  ];
  it.each(table)(
    "$id size $size, max-replicas annotation $max, $replicas replicas → $want",
    ({ size, replicas, surge, max, status, want }) => {
      const rs = replicaSet("rs", { size, ...(max === undefined ? {} : { max }) });
      const d = deployment({ replicas, surge, status: status === undefined ? {} : { replicas: status } });
      expect(replicaSetFraction(rs, d)).toBe(want);
    },
  );

  it("computes exactly where a 32-bit product would overflow, and rounds half up", () => {
    expect(replicaSetFraction(replicaSet("rs", { size: 2_000_000_000, max: 2_000_000_000 }), deployment({ replicas: 2_100_000_000 }))).toBe(
      100_000_000,
    );
    expect(replicaSetFraction(replicaSet("rs", { size: 5, max: 2 }), deployment({ replicas: 1 }))).toBe(3 - 5);
  });
});

describe("isSaturated", () => {
  it("[deployment T92] requires size, desired annotation and available pods to equal the Deployment's", () => {
    const d = deployment({ replicas: 1 });
    expect(isSaturated(d, replicaSet("rs", { size: 1, available: 1, desired: 1 }))).toBe(true);
    expect(isSaturated(d, replicaSet("rs", { size: 1, available: 0, desired: 1 }))).toBe(false);
    expect(isSaturated(d, replicaSet("rs", { size: 1, available: 1, desired: 2 }))).toBe(false);
    expect(isSaturated(d, replicaSet("rs", { size: 1, available: 1 }))).toBe(false);
    expect(isSaturated(d, replicaSet("rs", { size: 2, available: 1, desired: 1 }))).toBe(false);
  });

  it.each([
    ["+2", true],
    ["02", true],
    ["4294967298", true],
    ["-4294967294", true],
    ["-2", false],
    ["2 ", false],
    ["9223372036854775808", false],
  ])("parses an annotation of %j as Go does: %s", (desired, want) => {
    expect(isSaturated(deployment({ replicas: 2 }), replicaSet("rs", { size: 2, available: 2, desired }))).toBe(want);
  });
});

describe("scalingEvent", () => {
  const d = deployment({ replicas: 5 });
  it("is true when an active ReplicaSet's desired-replicas annotation differs from spec.replicas", () => {
    expect(scalingEvent(d, [replicaSet("a", { size: 5, desired: 5 }), replicaSet("b", { size: 1, desired: 4 })])).toEqual({
      decided: true,
      why: [{ rule: "resized", about: "b", facts: { replicas: 5, remembered: 4 } }],
    });
  });
  it("ignores ReplicaSets at 0 and missing or unreadable annotations", () => {
    const rss = [
      replicaSet("a", { size: 0, desired: 4 }),
      replicaSet("b", { size: 1 }),
      replicaSet("c", { size: 1, desired: "-4" }),
      replicaSet("d", { size: 1, desired: 5 }),
    ];
    expect(scalingEvent(d, rss)).toEqual({ decided: false, why: [{ rule: "not resized", facts: { replicas: 5, remembered: 5 } }] });
    expect(scalingEvent(d, rss.slice(0, 3))).toEqual({ decided: false, why: [] });
  });
});
