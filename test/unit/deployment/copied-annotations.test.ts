// Annotations that are copied from a Deployment to its ReplicaSets, and the live reads that this needs.
import { describe, expect, it } from "vitest";
import { NOW } from "./builders.ts";
import { SyncHarness } from "../../harness/sync/sync.ts";
import { liveDeployment, liveReplicaSet } from "./live-objects.ts";

const CHANGE_CAUSE = "kubernetes.io/change-cause";
const REVISION = "deployment.kubernetes.io/revision";
const SECRET = "kubectl set env deployment/web TOKEN=s3cret";
const NOTE = "deployment.kubernetes.io/note";

const annotationsOf = (harness: SyncHarness, name: string) => harness.live("replicasets", name).metadata.annotations ?? {};
const annotate = (harness: SyncHarness, annotations: Readonly<Record<string, string>>): Promise<void> =>
  harness.change("deployments", "web", (d) => ({
    ...d,
    metadata: { ...d.metadata, annotations: { ...d.metadata.annotations, ...annotations } },
  }));
const decided = (harness: SyncHarness): string => JSON.stringify(harness.traced);

describe("a new ReplicaSet", () => {
  const harness = (): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(1, {
        annotations: { [CHANGE_CAUSE]: SECRET, [NOTE]: "1", "kubectl.kubernetes.io/last-applied-configuration": SECRET },
      }),
    ]);

  it("[deployment T86] a new ReplicaSet has the annotation values of the live Deployment, and its write contains keys and digests", async () => {
    const created = await harness();
    await created.handle();
    const [name = ""] = created.names("replicasets");
    expect(annotationsOf(created, name)).toEqual({
      [CHANGE_CAUSE]: SECRET,
      [NOTE]: "1",
      [REVISION]: "1",
      "deployment.kubernetes.io/desired-replicas": "1",
      "deployment.kubernetes.io/max-replicas": "2",
    });
    expect(decided(created)).toContain(CHANGE_CAUSE);
    expect(decided(created)).not.toContain("s3cret");
    expect(created.spoken().filter((line) => line.startsWith("get"))).toEqual(["get deployments web"]);
  });

  it.each([
    { name: "differs", change: { [CHANGE_CAUSE]: "another" } },
    { name: "is new", change: { another: "one" } },
  ])("requeues the key and creates no ReplicaSet when an annotation of the live Deployment $name", async ({ change }) => {
    const created = await harness();
    await annotate(created, change);
    expect(await created.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(created.written()).toEqual([]);
    // The live read was written through.
    await created.handle();
    expect(annotationsOf(created, created.names("replicasets")[0] ?? "")).toMatchObject(change);
  });
});

describe("an existing new ReplicaSet", () => {
  const settled = { revision: "1", sizedFor: [1, 2] as const };
  const harness = (options: { readonly deletionTimestamp?: string } = {}): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(1, { annotations: { [REVISION]: "1", [CHANGE_CAUSE]: SECRET }, ...options }),
      liveReplicaSet("web-1", "v1", 1, settled),
    ]);

  it("copies the Deployment's annotations with one live read, and then needs no further write", async () => {
    const annotated = await harness();
    await annotated.handle();
    expect(annotated.spoken().slice(0, 2)).toEqual(["get deployments web", "patch replicasets web-1"]);
    expect(annotationsOf(annotated, "web-1")).toMatchObject({ [CHANGE_CAUSE]: SECRET, [REVISION]: "1" });
    expect(decided(annotated)).not.toContain("s3cret");
    await annotated.stream();
    await annotated.handle();
    expect(annotated.spoken().filter((line) => line.includes("web-1"))).toEqual([]);
  });

  it("an existing ReplicaSet gets a new revision without a live read", async () => {
    const rolledBack = await SyncHarness.of([
      liveDeployment(1, { annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 1, settled),
      liveReplicaSet("web-2", "v2", 0, { revision: "2", age: 1 }),
    ]);
    await rolledBack.handle();
    expect(annotationsOf(rolledBack, "web-1")).toMatchObject({ [REVISION]: "3" });
    expect(rolledBack.spoken().filter((line) => line.startsWith("get"))).toEqual([]);
  });

  it("requeues the key and does not patch the ReplicaSet when the live Deployment's annotations differ from the cached ones", async () => {
    const annotated = await harness();
    await annotate(annotated, { [CHANGE_CAUSE]: "another" });
    expect(await annotated.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(annotated.written()).toEqual([]);
    await annotated.handle();
    expect(annotationsOf(annotated, "web-1")).toMatchObject({ [CHANGE_CAUSE]: "another" });
  });

  it("an invalid revision annotation delays the copy of annotations until the ReplicaSet's size changes", async () => {
    const unreadable = async (replicas: number): Promise<SyncHarness> =>
      SyncHarness.of([
        liveDeployment(replicas, { annotations: { [REVISION]: "x", [CHANGE_CAUSE]: SECRET, [NOTE]: "1" } }),
        liveReplicaSet("web-1", "v1", 1, { revision: "x", sizedFor: [1, 2] }),
      ]);
    const still = await unreadable(1);
    await still.handle();
    expect(still.spoken().filter((line) => line.includes("web-1"))).toEqual([]);
    const grown = await unreadable(3);
    await grown.handle();
    expect(grown.written()[0]).toBe("patch replicasets web-1");
    expect(annotationsOf(grown, "web-1")).toMatchObject({ [CHANGE_CAUSE]: SECRET, [NOTE]: "1", [REVISION]: "x" });
    expect(grown.sizes()).toEqual({ "web-1": 3 });
    expect(decided(grown)).not.toContain("s3cret");
  });

  it("copies nothing to an old ReplicaSet", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(3, { image: "v2", annotations: { [REVISION]: "1", [CHANGE_CAUSE]: SECRET } }),
      liveReplicaSet("old", "v1", 1, { revision: "x", sizedFor: [1, 2] }),
    ]);
    await harness.handle();
    expect(harness.sizes()).toEqual({ old: 3 });
    expect(annotationsOf(harness, "old")).not.toHaveProperty([CHANGE_CAUSE]);
  });

  it("copies from a Deployment that is being deleted (quirk Q9)", async () => {
    const deleted = await harness({ deletionTimestamp: NOW });
    await deleted.handle();
    expect(annotationsOf(deleted, "web-1")).toMatchObject({ [CHANGE_CAUSE]: SECRET });
  });

  it("copies nothing from a deleted Deployment", async () => {
    const gone = await harness();
    await gone.api.remove("deployments", "web");
    expect(await gone.handle()).toEqual({ kind: "done" });
    expect(gone.written()).toEqual([]);
  });

  it("copies nothing if reading the Deployment fails", async () => {
    const unread = await harness();
    unread.api.script = { "get deployments": new Error("no answer") };
    await expect(unread.handle()).rejects.toThrow("no answer");
    expect(unread.written()).toEqual([]);
  });
});
