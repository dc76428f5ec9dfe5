// The Recreate strategy: old pods that block new ones, and finished pods that do not.
import { describe, expect, it } from "vitest";
import type { CachedPod } from "../../../shared/kube/objects/cached.ts";
import { oldPodsRunning, scaleDownOldReplicaSetsForRecreate } from "../../../shared/controllers/deployment/recreate.ts";
import { deployment, pod, replicaSet } from "./builders.ts";

const d = deployment({ replicas: 3, strategy: "Recreate" });
const idle = (name: string): ReturnType<typeof replicaSet> => replicaSet(name, { status: {}, template: name });
const running = (rss: readonly string[], pods: readonly CachedPod[]): boolean =>
  oldPodsRunning({ newRS: idle("new"), oldRSs: rss.map(idle) }, pods) !== undefined;

describe("scaleDownOldReplicaSetsForRecreate", () => {
  it("[deployment T70] scales old ReplicaSets to 0", () => {
    const { decided: steps } = scaleDownOldReplicaSetsForRecreate(d, [replicaSet("old", { size: 3 }), replicaSet("older", { size: 0 })]);
    expect(steps.map(({ write, note }) => [write.name, write.replicas, note?.message])).toEqual([
      ["old", 0, "Scaled down replica set old from 3 to 0"],
    ]);
  });
});

describe("oldPodsRunning", () => {
  it("[deployment T71] oldPodsRunning is false without an old ReplicaSet", () => expect(running([], [])).toBe(false));
  it("[deployment T72] oldPodsRunning is true for pods without a phase", () => {
    expect(running(["a", "b"], [pod("1", { rs: "a" }), pod("2", { rs: "a" }), pod("3", { rs: "b" }), pod("4", { rs: "b" })])).toBe(true);
  });
  it("[deployment T73] counts the replicas that an old ReplicaSet reports, even without pods", () => {
    expect(oldPodsRunning({ newRS: undefined, oldRSs: [replicaSet("a", { status: { replicas: 1 } })] }, [])).toEqual({
      rule: "old pods live",
      about: "a",
      facts: { by: "status", shows: 1 },
    });
    expect(oldPodsRunning({ newRS: undefined, oldRSs: [replicaSet("a", { status: { replicas: 0 } })] }, [])).toBeUndefined();
  });
  it("[deployment T74] oldPodsRunning is false for pods that have finished", () => {
    expect(running(["a"], [pod("1", { rs: "a", phase: "Failed" }), pod("2", { rs: "a", phase: "Succeeded" })])).toBe(false);
  });
  it.each(["Unknown", "Pending", "Running"])("[deployment T75] oldPodsRunning is true for a pod in phase %s", (phase) =>
    expect(running(["a"], [pod("1", { rs: "a", phase })])).toBe(true),
  );
  it("[deployment T76] oldPodsRunning is true if a single pod has not finished", () => {
    const ended = [pod("1", { rs: "a", phase: "Failed" }), pod("2", { rs: "a", phase: "Succeeded" })];
    expect(running(["a", "b", "c"], [...ended, pod("3", { rs: "c", phase: "Pending" })])).toBe(true);
  });
  it("ignores a pod whose owner reference matches an old ReplicaSet only partly", () => {
    const own = pod("1", { rs: "a" });
    for (const part of [{ name: "b" }, { uid: "other" }, { kind: "ReplicationController" }])
      expect(running(["a"], [{ ...own, owner: { kind: "ReplicaSet", name: "a", uid: "uid-a", ...own.owner, ...part } }])).toBe(false);
    expect(running(["a"], [{ ...own, namespace: "mallory" }])).toBe(false);
  });
  it("[deployment T8] ignores pods of the new ReplicaSet, of other owners and orphans, and counts terminating pods of old ReplicaSets", () => {
    expect(
      running(
        ["a"],
        [pod("1", { rs: "new", phase: "Running" }), pod("2", { phase: "Running" }), pod("3", { rs: "foreign", phase: "Running" })],
      ),
    ).toBe(false);
    expect(running(["a"], [pod("1", { rs: "a", phase: "Running", deletionTimestamp: "2026-03-01T09:59:00Z" })])).toBe(true);
  });
});
