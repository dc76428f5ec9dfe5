// Would catch: an annotation's value in a decided write, a value that the decision did not see, a ReplicaSet whose annotations are
// not the Deployment's, a live read that nobody needs.
import { describe, expect, it } from "vitest";
import { NOW } from "./builders.ts";
import { FakeCluster, liveDeployment, liveReplicaSet } from "./fake-cluster.ts";

const CHANGE_CAUSE = "kubernetes.io/change-cause";
const REVISION = "deployment.kubernetes.io/revision";
const SECRET = "kubectl set env deployment/web TOKEN=s3cret";
const NOTE = "deployment.kubernetes.io/note";

const annotationsOf = (cluster: FakeCluster, name: string) => cluster.live("replicasets", name).metadata.annotations ?? {};
const annotate = (cluster: FakeCluster, annotations: Readonly<Record<string, string>>): void =>
  cluster.change("deployments", "web", (d) => ({
    ...d,
    metadata: { ...d.metadata, annotations: { ...d.metadata.annotations, ...annotations } },
  }));
const decided = (cluster: FakeCluster): string => JSON.stringify(cluster.traced);

describe("a new ReplicaSet", () => {
  const cluster = (): FakeCluster =>
    new FakeCluster([
      liveDeployment(1, {
        annotations: { [CHANGE_CAUSE]: SECRET, [NOTE]: "1", "kubectl.kubernetes.io/last-applied-configuration": SECRET },
      }),
    ]);

  it("[deployment T86] takes the annotations' values from the live Deployment; the write has keys and digests", async () => {
    const created = cluster();
    await created.sync();
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
  ])("is not made where an annotation $name by now: the key runs again", async ({ change }) => {
    const created = cluster();
    annotate(created, change);
    expect(await created.sync()).toEqual({ kind: "again", afterMs: 0 });
    expect(created.written()).toEqual([]);
    // The live read was written through.
    await created.sync();
    expect(annotationsOf(created, created.names("replicasets")[0] ?? "")).toMatchObject(change);
  });
});

describe("an existing new ReplicaSet", () => {
  const settled = { revision: "1", sizedFor: [1, 2] as const };
  const cluster = (options: { readonly deletionTimestamp?: string } = {}): FakeCluster =>
    new FakeCluster([
      liveDeployment(1, { annotations: { [REVISION]: "1", [CHANGE_CAUSE]: SECRET }, ...options }),
      liveReplicaSet("web-1", "v1", 1, settled),
    ]);

  it("gets what the Deployment was annotated with, for one live read, and then nothing more", async () => {
    const annotated = cluster();
    await annotated.sync();
    expect(annotated.spoken().slice(0, 2)).toEqual(["get deployments web", "patch replicasets web-1"]);
    expect(annotationsOf(annotated, "web-1")).toMatchObject({ [CHANGE_CAUSE]: SECRET, [REVISION]: "1" });
    expect(decided(annotated)).not.toContain("s3cret");
    annotated.catchUp();
    await annotated.sync();
    expect(annotated.spoken().filter((line) => line.includes("web-1"))).toEqual([]);
  });

  it("gets a new revision without a live read", async () => {
    const rolledBack = new FakeCluster([
      liveDeployment(1, { annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 1, settled),
      liveReplicaSet("web-2", "v2", 0, { revision: "2", age: 1 }),
    ]);
    await rolledBack.sync();
    expect(annotationsOf(rolledBack, "web-1")).toMatchObject({ [REVISION]: "3" });
    expect(rolledBack.spoken().filter((line) => line.startsWith("get"))).toEqual([]);
  });

  it("is left alone where the Deployment is annotated otherwise by now: the key runs again", async () => {
    const annotated = cluster();
    annotate(annotated, { [CHANGE_CAUSE]: "another" });
    expect(await annotated.sync()).toEqual({ kind: "again", afterMs: 0 });
    expect(annotated.written()).toEqual([]);
    await annotated.sync();
    expect(annotationsOf(annotated, "web-1")).toMatchObject({ [CHANGE_CAUSE]: "another" });
  });

  it("gets them of a Deployment that is being deleted, too (quirk Q9)", async () => {
    const deleted = cluster({ deletionTimestamp: NOW });
    await deleted.sync();
    expect(annotationsOf(deleted, "web-1")).toMatchObject({ [CHANGE_CAUSE]: SECRET });
  });

  it("gets nothing of a Deployment that is gone", async () => {
    const gone = cluster();
    gone.remove("deployments", "web");
    expect(await gone.sync()).toEqual({ kind: "done" });
    expect(gone.written()).toEqual([]);
  });

  it("gets nothing while the Deployment cannot be read", async () => {
    const unread = cluster();
    unread.refuse = ({ verb }) => (verb === "get" ? new Error("no answer") : undefined);
    await expect(unread.sync()).rejects.toThrow("no answer");
    expect(unread.written()).toEqual([]);
  });
});
