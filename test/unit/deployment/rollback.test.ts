// Rollbacks: the chosen revision, the patched template, Events, and the end of a request.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../../../shared/base/json.ts";
import { mergePatch, rollbackStep } from "../../../shared/controllers/deployment/rollback.ts";
import { refusal, type Json } from "../../support/scripted-api.ts";
import { applyMergePatch } from "../../../shared/api-server/rest/patch-merge.ts";
import { deployment, OWNER, replicaSet } from "./builders.ts";
import { SyncHarness, type Live } from "../../harness/sync/sync.ts";
import { liveDeployment, liveReplicaSet, podTemplate } from "./live-objects.ts";

const REQUEST = "deprecated.deployment.rollback.to";
const REVISION = "deployment.kubernetes.io/revision";
const HISTORY = "deployment.kubernetes.io/revision-history";
const CAUSE = "kubernetes.io/change-cause";

describe("a rollback", () => {
  const d = deployment({ template: "v3", resourceVersion: "77", generation: 4, annotations: { [REQUEST]: "5" } });
  const old = [replicaSet("a", { revision: "1", template: "v1" }), replicaSet("b", { revision: "2", template: "v2", age: 1 })];
  const split = { newRS: replicaSet("c", { revision: "3", template: "v3", age: 2 }), oldRSs: old };
  const end = {
    kind: "RollBack",
    owner: OWNER,
    resourceVersion: "77",
    request: { [REQUEST]: "5" },
    template: { generation: 4, digest: "k1.f1.v3" },
  };
  const to = (name: string, template: string): object => ({ ...end, to: { name, uid: `uid-${name}`, digest: `k1.f1.${template}` } });
  const warning = (reason: string, message: string): object => ({ write: end, warning: { type: "Warning", reason, message } });
  const done = (revision: number): object => ({
    type: "Normal",
    reason: "DeploymentRollback",
    message: `Rolled back deployment "web" to revision ${revision}`,
  });

  it.each([
    { name: "the previous revision", requested: 0n, want: { write: to("b", "v2"), note: done(2) } },
    { name: "a given revision", requested: 1n, want: { write: to("a", "v1"), note: done(1) } },
    {
      name: "the current revision",
      requested: 3n,
      want: warning("DeploymentRollbackTemplateUnchanged", 'The rollback revision contains the same template as current deployment "web"'),
    },
    {
      name: "a revision that does not exist",
      requested: 9n,
      want: warning("DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
    },
    {
      name: "a negative number",
      requested: -1n,
      want: warning("DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
    },
  ])("to $name has the expected write or Event", ({ requested, want }) => {
    const { why, ...step } = rollbackStep(d, split, requested);
    expect(step).toEqual(want);
    expect(why.rule).toBe("to" in step.write ? "rolls back" : requested === 3n ? "rollback changes nothing" : "rollback finds nothing");
  });

  const lastOf = (...revisions: readonly (string | undefined)[]): string | undefined => {
    const rss = revisions.map((revision, i) =>
      replicaSet(`rs${i}`, { template: `t${i}`, age: i, ...(revision !== undefined && { revision }) }),
    );
    const { warning: refused, write } = rollbackStep(d, { newRS: undefined, oldRSs: rss }, 0n);
    return refused?.message ?? write.to?.name;
  };
  it("takes the second highest revision as the previous one; equal revisions count twice, invalid ones are ignored", () => {
    expect(lastOf("1", "3", "2")).toBe("rs2");
    expect(lastOf("3", "x", "1")).toBe("rs2");
    expect(lastOf("2", "1", "2")).toBe("rs0");
    expect(lastOf("1")).toBe("Unable to find last revision.");
    expect(lastOf("1", undefined)).toBe("Unable to find last revision.");
  });
});

describe("the merge patch between two templates", () => {
  const json = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: "small" }, fc.boolean(), fc.string(), fc.array(fc.integer()), tie("object")),
    object: fc.dictionary(fc.constantFrom("a", "b", "constructor", "toString"), tie("value")),
  })).object as fc.Arbitrary<JsonObject>;

  it("transforms one into the other, for arbitrary templates", () => {
    fc.assert(
      fc.property(json, json, (from, to) => {
        expect(applyMergePatch(from, mergePatch(from, to))).toEqual(to);
      }),
    );
  });

  it("removes keys named like members of Object.prototype", () => {
    const labels = JSON.parse('{"app":"web","constructor":"x","toString":"y"}') as JsonObject;
    expect(mergePatch({ labels }, { labels: JSON.parse('{"app":"web","valueOf":"z"}') as JsonObject })).toEqual({
      labels: { app: "web", constructor: null, toString: null, valueOf: "z" },
    });
  });
});

describe("a sync with a pending request", () => {
  /** Revision 1 had its own volume, label and change cause. */
  const first = (): Live => {
    const rs = liveReplicaSet("v1", "v1", 0, { revision: "1", sizedFor: [1, 2] });
    const template = podTemplate("v1", { app: "web", "pod-template-hash": "v1", only: "first" }) as { readonly spec: Json };
    return {
      ...rs,
      metadata: { ...rs.metadata, annotations: { ...rs.metadata.annotations, [CAUSE]: "first", extra: "1" } },
      spec: { ...rs.spec, template: { ...template, spec: { ...template.spec, terminationGracePeriodSeconds: 9223372036854775807n } } },
    };
  };
  const second = (): Live => {
    const rs = liveReplicaSet("v2", "v2", 1, { revision: "2", sizedFor: [1, 2], age: 1 });
    return { ...rs, metadata: { ...rs.metadata, annotations: { ...rs.metadata.annotations, [CAUSE]: "second", note: "n" } } };
  };
  const asked = (to: string, spec: Json = {}): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(1, {
        image: "v2",
        annotations: { [REVISION]: "2", [REQUEST]: to, [CAUSE]: "second", note: "n" },
        spec: { ...spec },
      }),
      first(),
      second(),
    ]);
  const web = (harness: SyncHarness): Live => harness.live("deployments", "web");

  it("[deployment T5] writes the Deployment once and no ReplicaSet, and records an Event", async () => {
    const harness = await asked("0");
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.spoken()).toEqual(["get deployments web", "get replicasets v1", "patch deployments web"]);
    expect(harness.events).toEqual(['DeploymentRollback: Rolled back deployment "web" to revision 1']);
  });

  it("continues immediately with the rollout, based on the response to the write", async () => {
    const harness = await asked("0");
    await harness.handle();
    expect(await harness.queuedInMs()).toBe(0);
    await harness.handle();
    expect(harness.written().slice(1)).toContain("patch replicasets v1");
    expect(harness.events.filter((event) => event.startsWith("DeploymentRollback"))).toHaveLength(1);
  });

  it("[deployment T130] copies the ReplicaSet's template without its hash, every digit preserved, and its annotations except those never copied", async () => {
    const harness = await asked("1");
    await harness.handle();
    const { metadata, spec } = web(harness);
    expect(spec?.["template"]).toEqual({
      metadata: { labels: { app: "web", only: "first" } },
      spec: expect.objectContaining({
        containers: [expect.objectContaining({ name: "app", image: "v1" })],
        terminationGracePeriodSeconds: 9223372036854775807n,
      }),
    });
    expect(metadata.annotations).toEqual({ [REVISION]: "2", [CAUSE]: "first", extra: "1" });
    expect(JSON.stringify(harness.traced)).not.toContain("terminationGracePeriodSeconds");
  });

  it("starts a rollout in which the old ReplicaSet gets the next revision and keeps the previous one in its history", async () => {
    const harness = await asked("1");
    for (let i = 0; i < 8; i++) {
      await harness.handle();
      await harness.settle();
    }
    expect(harness.names("replicasets")).toEqual(["v1", "v2"]);
    expect(harness.sizes()).toEqual({ v1: 1, v2: 0 });
    expect(harness.live("replicasets", "v1").metadata.annotations).toMatchObject({ [REVISION]: "3", [HISTORY]: "1", [CAUSE]: "first" });
    expect(web(harness).metadata.annotations).toMatchObject({ [REVISION]: "3" });
    expect(harness.events.filter((event) => event.startsWith("DeploymentRollback"))).toHaveLength(1);
  });

  it.each([
    { to: "2", event: 'DeploymentRollbackTemplateUnchanged: The rollback revision contains the same template as current deployment "web"' },
    { to: "7", event: "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to." },
  ])("a request for revision $to removes the request annotation, records an Event and changes nothing else", async ({ to, event }) => {
    const harness = await asked(to);
    const before = web(harness);
    await harness.handle();
    expect(harness.written()).toEqual(["patch deployments web"]);
    expect(harness.events).toEqual([event]);
    const { [REQUEST]: _request, ...annotations } = before.metadata.annotations ?? {};
    expect(web(harness)).toMatchObject({ metadata: { annotations }, spec: before.spec });
    expect(web(harness).metadata.annotations).not.toHaveProperty([REQUEST]);
  });

  it("first creates the ReplicaSet of the current template, with its revision", async () => {
    const harness = await SyncHarness.of([liveDeployment(1, { image: "v2", annotations: { [REQUEST]: "0" } }), first()]);
    await harness.handle();
    expect(harness.written()).toEqual([
      expect.stringMatching(/^create replicasets /),
      "patch deployments/status web",
      "patch deployments web",
    ]);
    expect(harness.events.at(-1)).toBe('DeploymentRollback: Rolled back deployment "web" to revision 1');
    expect(web(harness).metadata.annotations).toMatchObject({ [REVISION]: "2" });
  });

  it("rolls back before it scales", async () => {
    const harness = await asked("1", { replicas: 5 });
    await harness.handle();
    expect(harness.written()).toEqual(["patch deployments web"]);
  });

  it("does not roll back while the Deployment is paused or being deleted, and writes only its status", async () => {
    const paused = await asked("1", { paused: true });
    await paused.handle();
    expect(paused.written()).toEqual(["patch deployments/status web"]);
    const deleted = await asked("1");
    await deleted.api.terminate("deployments", "web");
    await deleted.stream();
    await deleted.handle();
    expect(deleted.written()).toEqual(["patch deployments/status web"]);
  });

  it("ignores a request that is not an int64 and continues the rollout (quirk Q6)", async () => {
    for (const bad of ["", "last", "1.0", "9223372036854775808"]) {
      const harness = await asked(bad);
      await harness.handle();
      expect(harness.written()).toEqual(["patch deployments/status web"]);
      expect(web(harness).metadata.annotations).toMatchObject({ [REQUEST]: bad });
    }
  });

  const edited = (d: Live): Live => ({ ...d, spec: { ...d.spec, template: podTemplate("v9") } });

  it("requeues the key and does not roll back if the live Deployment has changed since the decision", async () => {
    const harness = await asked("1");
    await harness.change("deployments", "web", edited);
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(harness.written()).toEqual([]);
  });

  it("fails the sync without a rollback if the live Deployment does not request it", async () => {
    const harness = await asked("x");
    const { metadata } = harness.live("deployments", "web");
    harness.forge("deployments", {
      ...harness.live("deployments", "web"),
      metadata: { ...metadata, annotations: { ...metadata.annotations, [REQUEST]: "1" } },
    });
    await harness.stream();
    await expect(harness.handle()).rejects.toThrow("the Deployment no longer requests this rollback");
    expect(harness.written()).toEqual([]);
  });

  it("does not roll back to a ReplicaSet that has changed or is deleted, and updates the cache", async () => {
    const other = await asked("1");
    await other.change("replicasets", "v1", edited);
    await expect(other.handle()).rejects.toThrow("ReplicaSet v1 was changed or deleted since the rollback was decided");
    const gone = await asked("1");
    await gone.api.remove("replicasets", "v1");
    await expect(gone.handle()).rejects.toThrow("ReplicaSet v1 was changed or deleted since the rollback was decided");
    for (const harness of [other, gone]) {
      expect(harness.written()).toEqual([]);
      expect(harness.events).toEqual([]);
    }
    // The row is deleted, so the next sync does not find the revision.
    await gone.handle();
    expect(gone.events).toEqual(["DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to."]);
  });

  it("a conflict fails the sync without an Event, and the next sync rolls back the current object", async () => {
    const harness = await asked("1");
    let raced = false;
    harness.api.script = {
      "patch deployments": async () => {
        if (raced) return;
        raced = true;
        await harness.change("deployments", "web", (d) => ({ ...d, status: { ...d.status, observedGeneration: 1 } }));
      },
    };
    await expect(harness.handle()).rejects.toMatchObject({ code: 409 });
    expect(harness.events).toEqual([]);
    await harness.handle(); // uses the rows that were written through
    expect(harness.events).toEqual(['DeploymentRollback: Rolled back deployment "web" to revision 1']);
  });

  it("fails if the API server rejects the rollback, and still records warnings", async () => {
    const harness = await asked("7");
    harness.api.script = { "patch deployments": refusal(403, "Forbidden", "not yours") };
    await expect(harness.handle()).rejects.toThrow("not yours");
    expect(harness.events).toEqual(["DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to."]);
  });

  it("the rollback ends as done if the Deployment is deleted meanwhile", async () => {
    const harness = await asked("1");
    harness.api.script = { "patch deployments": refusal(404, "NotFound", "gone") };
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.events).toEqual([]);
  });
});
