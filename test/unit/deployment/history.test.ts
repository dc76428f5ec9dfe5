// Clean-up of the revision history.
import { describe, expect, it } from "vitest";
import type { CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import { cleanupDeployment } from "../../../shared/controllers/deployment/history.ts";
import { deployment, OWNER, replicaSet } from "./builders.ts";

/** A ReplicaSet with the sizes `specR/statusR` of the specification. */
const sized = (name: string, spec: number, status: number, more: Parameters<typeof replicaSet>[1] = {}): CachedReplicaSet =>
  replicaSet(name, { size: spec, status: { replicas: status, observedGeneration: 1 }, template: name, ...more });
const deleted = (limit: number | undefined, rss: readonly CachedReplicaSet[]): readonly string[] =>
  cleanupDeployment(deployment(limit === undefined ? {} : { historyLimit: limit }), rss).decided.map(({ name }) => name);

describe("cleanupDeployment", () => {
  const idle = ["a", "b", "c"].map((name) => sized(name, 0, 0));
  it("[deployment T78] deletes the ReplicaSets above the limit", () => expect(deleted(1, idle)).toEqual(["a", "b"]));
  it("[deployment T79] deletes only ReplicaSets with no pods and 0 desired replicas", () => {
    expect(deleted(0, [sized("a", 0, 0), sized("b", 0, 1), sized("c", 1, 0), sized("d", 1, 1)])).toEqual(["a"]);
  });
  it("[deployment T80] deletes all old ReplicaSets at limit 0", () => expect(deleted(0, idle.slice(0, 2))).toEqual(["a", "b"]));
  it("[deployment T81] keeps a ReplicaSet that has pods", () => expect(deleted(0, [sized("a", 1, 1), sized("b", 1, 1)])).toEqual([]));
  it("[deployment T82] keeps a ReplicaSet that is being deleted", () =>
    expect(deleted(0, [sized("a", 0, 0, { deletionTimestamp: "2026-03-01T09:59:00Z" })])).toEqual([]));
  it("[deployment T83] treats 2147483647 and an absent value as no limit", () => {
    expect(deleted(2_147_483_647, idle)).toEqual([]);
    expect(deleted(undefined, idle)).toEqual([]);
  });

  const order: { name: string; limit: number; rss: readonly CachedReplicaSet[]; want: readonly string[] }[] = [
    {
      name: "revisions 1 and 2, limit 1",
      limit: 1,
      rss: [sized("rs1", 0, 0, { revision: "1", age: 1 }), sized("rs2", 0, 0, { revision: "2", age: 2 })],
      want: ["rs1"],
    },
    {
      name: "revisions 2 and 1, limit 1",
      limit: 1,
      rss: [sized("rs1", 0, 0, { revision: "2", age: 1 }), sized("rs2", 0, 0, { revision: "1", age: 2 })],
      want: ["rs2"],
    },
    {
      name: "revision 1 and none, limit 1",
      limit: 1,
      rss: [sized("rs1", 0, 0, { revision: "1", age: 1 }), sized("rs2", 0, 0, { age: 2 })],
      want: ["rs2"],
    },
    {
      name: "no revision and 2, limit 1",
      limit: 1,
      rss: [sized("rs1", 0, 0, { age: 1 }), sized("rs2", 0, 0, { revision: "2", age: 2 })],
      want: ["rs1"],
    },
    {
      name: "revisions 1 (with replicas), 2 and 3, limit 1",
      limit: 1,
      rss: [
        sized("rs1", 1, 1, { revision: "1", age: 1 }),
        sized("rs2", 0, 0, { revision: "2", age: 2 }),
        sized("rs3", 0, 0, { revision: "3", age: 3 }),
      ],
      want: ["rs2"],
    },
    {
      name: "revisions 1 and 2 (both with replicas) and 3, limit 1",
      limit: 1,
      rss: [
        sized("rs1", 1, 1, { revision: "1", age: 1 }),
        sized("rs2", 1, 1, { revision: "2", age: 2 }),
        sized("rs3", 0, 0, { revision: "3", age: 3 }),
      ],
      want: [],
    },
    {
      name: "revisions 3, 1, 4 and 2, limit 2",
      limit: 2,
      rss: ["3", "1", "4", "2"].map((revision, index) => sized(`rs${index + 1}`, 0, 0, { revision, age: index + 1 })),
      want: ["rs2", "rs4"],
    },
  ];
  it.each(order)("[deployment T84] deletes in the order of revisions: $name", ({ limit, rss, want }) =>
    expect(deleted(limit, rss)).toEqual(want),
  );

  it("orders revisions beyond 2^53 exactly, and ReplicaSets with an invalid revision by age", () => {
    expect(
      deleted(1, [sized("b", 0, 0, { revision: "9007199254740993", age: 1 }), sized("a", 0, 0, { revision: "9007199254740992", age: 2 })]),
    ).toEqual(["a"]);
    expect(deleted(1, [sized("b", 0, 0, { revision: "x", age: 2 }), sized("a", 0, 0, { revision: "9", age: 1 })])).toEqual(["a"]);
  });

  it("orders ReplicaSets as Go's sort does if an invalid revision makes the order cyclic", () => {
    const circle = ["3", "", "1"].map((revision, age) => sized(`rs${age}`, 0, 0, { revision, age }));
    // By age, rs0 < rs1 < rs2, but by revision, rs2 < rs0: each neighbouring pair is in order, so the sort moves nothing.
    expect(deleted(0, circle)).toEqual(["rs0", "rs1", "rs2"]);
    // Youngest first: rs1 precedes rs2 by age; rs0 does not precede rs2 by revision, so it stays last.
    expect(deleted(0, circle.toReversed())).toEqual(["rs1", "rs2", "rs0"]);
    const longer = ["5", "4", "", "2", "1"].map((revision, age) => sized(`rs${age}`, 0, 0, { revision, age }));
    expect(deleted(0, longer)).toEqual(["rs1", "rs0", "rs2", "rs4", "rs3"]);
    // The order that a Go program printed.
    const twelve = ["5", "4", "", "2", "1", "7", "", "3", "0", "9", "", "6"].map((revision, age) =>
      sized(`rs${age}`, 0, 0, { revision, age }),
    );
    const printed = "rs2 rs6 rs8 rs4 rs3 rs7 rs1 rs0 rs10 rs11 rs5 rs9";
    expect(deleted(0, twelve.toReversed()).join(" ")).toBe(printed);
  });

  it("keeps a ReplicaSet whose observedGeneration is behind its generation", () => {
    expect(deleted(0, [sized("a", 0, 0, { generation: 2 })])).toEqual([]);
  });

  it("[deployment S16] deletes with the resourceVersion on which it decided", () => {
    expect(cleanupDeployment(deployment({ historyLimit: 0 }), [sized("a", 0, 0, { resourceVersion: "77" })]).decided).toEqual([
      { kind: "DeleteReplicaSet", owner: OWNER, name: "a", uid: "uid-a", resourceVersion: "77" },
    ]);
  });
});
