// Would catch: the removal of a container's last instance, which deletes its logs; an exit code that is lost before it is stored; the
// removal of a sandbox that still has containers; and dead containers of deleted pods that accumulate.
import { describe, expect, it } from "vitest";
import {
  containersToRemove,
  deadInstancesOf,
  logDirectoriesToRemove,
  sandboxesToRemove,
} from "../../../../shared/node-agent/kubelet/kuberuntime/container-gc.ts";
import { LABELS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import type { Container, PodSandbox } from "../../../../shared/node-agent/ports/cri-types.ts";
import { container as observedContainer, exited } from "../fixtures.ts";

const rest = { annotations: {}, image: "i", imageRef: "i" };

function container(attempt: number, fields: Partial<Container> & { readonly uid?: string; readonly name?: string } = {}): Container {
  const { uid = "pod", name = "foo", ...more } = fields;
  const id = `${uid}/${name}-${attempt}`;
  const labels = { [LABELS.podUid]: uid };
  return {
    ...rest,
    id,
    labels,
    podSandboxId: `s-${uid}`,
    metadata: { name, attempt },
    state: "CONTAINER_EXITED",
    createdAtMs: attempt,
    ...more,
  };
}

function sandbox(id: string, attempt: number, fields: Partial<PodSandbox> = {}, uid = "pod"): PodSandbox {
  const metadata = { name: "p", namespace: "n", uid, attempt };
  return { id, metadata, state: "SANDBOX_NOTREADY", createdAtMs: attempt, labels: {}, annotations: {}, ...fields };
}

const kept = { contentRemovable: () => false, allSourcesReady: true, statusStored: () => true };
const deleted = { ...kept, contentRemovable: () => true };
const fourDead = [container(2), container(0), container(3), container(1)];

describe("containersToRemove", () => {
  it.each([
    {
      name: "[node-agent 88] of four dead containers of an existing pod, the newest is kept",
      containers: fourDead,
      given: kept,
      want: ["pod/foo-0", "pod/foo-1", "pod/foo-2"],
    },
    {
      name: "[node-agent 88] of four dead containers of a deleted pod, none is kept",
      containers: fourDead,
      given: deleted,
      want: ["pod/foo-0", "pod/foo-1", "pod/foo-2", "pod/foo-3"],
    },
    {
      name: "before all sources are ready, no pod is treated as deleted",
      containers: fourDead,
      given: { ...deleted, allSourcesReady: false },
      want: ["pod/foo-0", "pod/foo-1", "pod/foo-2"],
    },
    {
      name: "a running container is not removed",
      containers: [container(0), container(1, { state: "CONTAINER_RUNNING" })],
      given: kept,
      want: [],
    },
    {
      name: "a running container of a deleted pod is not removed either",
      containers: [container(1, { state: "CONTAINER_RUNNING" })],
      given: deleted,
      want: [],
    },
    {
      name: "a container that never started, or has an unknown state, is treated as dead",
      containers: [container(0, { state: "CONTAINER_UNKNOWN" }), container(1, { state: "CONTAINER_CREATED" }), container(2)],
      given: kept,
      want: ["pod/foo-0", "pod/foo-1"],
    },
    {
      name: "the newest container of each name in each pod is kept",
      containers: [container(0), container(0, { name: "bar" }), container(0, { uid: "other" })],
      given: kept,
      want: [],
    },
    {
      name: "the container with the highest attempt is the newest, even if it was created earlier",
      containers: [container(0, { createdAtMs: 9 }), container(1, { createdAtMs: 1 })],
      given: kept,
      want: ["pod/foo-0"],
    },
    {
      name: "of two containers with equal attempts, the one created later is the newest",
      containers: [container(0, { id: "new", createdAtMs: 9 }), container(0, { id: "old" })],
      given: kept,
      want: ["old"],
    },
    {
      name: "GC1 a container is kept until its exit code is stored",
      containers: fourDead,
      given: { ...deleted, statusStored: (id: string) => id !== "pod/foo-1" },
      want: ["pod/foo-0", "pod/foo-2", "pod/foo-3"],
    },
    {
      name: "GC1 only an exited container has an exit code",
      containers: [container(0, { state: "CONTAINER_CREATED" })],
      given: { ...deleted, statusStored: () => false },
      want: ["pod/foo-0"],
    },
  ])("containers to remove: $name", ({ containers, given, want }) => {
    expect(containersToRemove(containers, given)).toEqual(want);
  });

  it("selects the containers to remove for each pod separately", () => {
    const containers = [container(0, { uid: "gone" }), container(0, { uid: "here" })];
    expect(containersToRemove(containers, { ...kept, contentRemovable: (uid) => uid === "gone" })).toEqual(["gone/foo-0"]);
  });
});

describe("sandboxesToRemove", () => {
  const two = [sandbox("s0", 0), sandbox("s1", 1)];
  it.each([
    {
      name: "[node-agent 88] a sandbox with containers is kept, even if its pod was deleted",
      sandboxes: [sandbox("s-pod", 0)],
      containers: [container(0)],
      given: deleted,
      want: [],
    },
    { name: "the newest sandbox of an existing pod is kept", sandboxes: two, containers: [], given: kept, want: ["s0"] },
    { name: "no sandbox of a deleted pod is kept", sandboxes: two, containers: [], given: deleted, want: ["s0", "s1"] },
    {
      name: "GC2 before all sources are ready, no pod is treated as deleted",
      sandboxes: two,
      containers: [],
      given: { ...deleted, allSourcesReady: false },
      want: ["s0"],
    },
    {
      name: "a ready sandbox is never removed",
      sandboxes: [sandbox("s0", 0, { state: "SANDBOX_READY" })],
      containers: [],
      given: deleted,
      want: [],
    },
    {
      name: "dead sandboxes are removed if the pod has a ready one",
      sandboxes: [sandbox("s0", 0), sandbox("s1", 1, { state: "SANDBOX_READY" })],
      containers: [],
      given: kept,
      want: ["s0"],
    },
    {
      name: "the sandbox with the highest attempt is the newest, even if it was created earlier",
      sandboxes: [sandbox("s0", 0, { createdAtMs: 9 }), sandbox("s1", 1)],
      containers: [],
      given: kept,
      want: ["s0"],
    },
    {
      name: "the newest sandbox of each pod is kept",
      sandboxes: [sandbox("a", 0, {}, "one"), sandbox("b", 0, {}, "two")],
      containers: [],
      given: kept,
      want: [],
    },
  ])("sandboxes to remove: $name", ({ sandboxes, containers, given, want }) => {
    expect(sandboxesToRemove(sandboxes, containers, given)).toEqual(want);
  });
});

describe("deadInstancesOf", () => {
  const all = () => true;
  const containers = [
    observedContainer({ restartCount: 3 }),
    exited("foo1", 1, { restartCount: 2 }),
    exited("foo1", 1, { restartCount: 1 }),
    exited("foo1", 1),
    exited("foo2", 0),
    exited("foo2", 0, { restartCount: 1 }),
  ];

  it("after a container has died, removes all dead instances with its name except the newest", () => {
    expect(deadInstancesOf(containers, { diedId: "foo1-2" }, all)).toEqual(["foo1-0", "foo1-1"]);
    expect(deadInstancesOf(containers, { diedId: "foo2-1" }, all)).toEqual(["foo2-0"]);
  });

  it("removes nothing for a container that no longer exists", () => {
    expect(deadInstancesOf(containers, { diedId: "foo9-0" }, all)).toEqual([]);
  });

  it("returns every dead instance of a pod that was evicted, or deleted and terminated", () => {
    expect(deadInstancesOf(containers, "all", all).toSorted()).toEqual(["foo1-0", "foo1-1", "foo1-2", "foo2-0", "foo2-1"]);
  });

  it("GC1 keeps a container until its exit code is stored", () => {
    expect(deadInstancesOf(containers, { diedId: "foo1-2" }, (id) => id !== "foo1-1")).toEqual(["foo1-0"]);
  });
});

describe("logDirectoriesToRemove", () => {
  const directories = ["shop_web_gone", "shop_web_here", "gone", "a_b_c_gone", "__gone"];
  const contentRemovable = (uid: string): boolean => uid === "gone";

  it("returns the log directories of removed pods, but no directory whose name is not that of a pod", () => {
    expect(logDirectoriesToRemove(directories, { contentRemovable, allSourcesReady: true })).toEqual(["shop_web_gone"]);
  });

  it("returns no directories before all sources are ready", () => {
    expect(logDirectoriesToRemove(directories, { contentRemovable, allSourcesReady: false })).toEqual([]);
  });
});
