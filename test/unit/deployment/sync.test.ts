// A sync of the Deployment controller: order of branches, stale caches, number of writes, Events.
import { setImmediate } from "node:timers/promises";
import { beforeEach, describe, expect, it } from "vitest";
import { resourcePath } from "../../../shared/kube/http/path.ts";
import { exactText } from "../../../shared/base/exact-json.ts";
import { compileSelector } from "../../../shared/kube/selectors/selector.ts";
import { UnansweredError } from "../../../shared/kube/client/errors.ts";
import { createSession } from "../../../shared/controllers/kit/sync/session.ts";
import { claimReplicaSets } from "../../../shared/controllers/deployment/claim-replica-sets.ts";
import { syncDeployment } from "../../../shared/controllers/deployment/sync/sync.ts";
import { replicaSetOwner } from "../../support/builders.ts";
import { refusal, type Json } from "../../support/scripted-api.ts";
import { condition, deployment, NOW, NOW_MS, ownedBy, replicaSet } from "./builders.ts";
import { SyncHarness, type Live } from "../../harness/sync/sync.ts";
import { liveDeployment, livePod, liveReplicaSet, podTemplate } from "./live-objects.ts";

const REVISION = "deployment.kubernetes.io/revision";
const conditionsOf = (harness: SyncHarness): readonly unknown[] =>
  (harness.live("deployments", "web").status?.["conditions"] ?? []) as readonly unknown[];
const statusOf = (harness: SyncHarness): Json => harness.live("deployments", "web").status ?? {};
const revisionOf = (harness: SyncHarness): string | undefined => harness.live("deployments", "web").metadata.annotations?.[REVISION];
const quota = refusal(403, "Forbidden", "exceeded quota");

/** Syncs until a sync writes nothing; the ReplicaSet controller acts immediately in between. */
async function converge(harness: SyncHarness, check: () => void = () => undefined): Promise<void> {
  for (let i = 0; i < 30; i++) {
    const result = await harness.handle();
    check();
    const wrote = harness.written().length > 0;
    await harness.settle();
    if (!wrote && result.kind === "done") return;
  }
  throw new Error("does not settle");
}

describe("entry", () => {
  it("[deployment T1] creates the ReplicaSet, then writes the revision, then the status", async () => {
    const harness = await SyncHarness.of([liveDeployment(1)]);
    expect(await harness.handle()).toEqual({ kind: "done" });
    const [rs] = harness.names("replicasets");
    expect(harness.spoken()).toEqual([
      "list replicasets",
      "get deployments web",
      `create replicasets ${rs}`,
      "patch deployments/status web",
      "patch deployments/status web",
    ]);
    expect(harness.events).toEqual([`ScalingReplicaSet: Scaled up replica set ${rs} from 0 to 1`]);
    expect(revisionOf(harness)).toBe("1");
    expect(statusOf(harness)).toEqual({
      observedGeneration: 1,
      unavailableReplicas: 1,
      terminatingReplicas: 0,
      conditions: [condition("Available", "True", "MinimumReplicasAvailable", { message: "Deployment has minimum availability." })],
    });
  });

  it("[deployment T130] preserves every digit of the template, and treats a changed digit as a rollout", async () => {
    const template = (tolerationSeconds: bigint): Json => ({
      metadata: { labels: { app: "web" } },
      spec: {
        containers: [{ name: "app", image: "v1" }],
        terminationGracePeriodSeconds: 9223372036854775807n,
        tolerations: [{ key: "k", operator: "Exists", effect: "NoExecute", tolerationSeconds }],
      },
    });
    const harness = await SyncHarness.of([liveDeployment(1, { spec: { template: template(9007199254740993n) } })]);
    const digits = (): readonly unknown[] => harness.api.all("replicasets").map((rs) => exactText(rs).match(/\d{16,}/g));
    for (let i = 0; i < 3; i++) {
      await harness.handle();
      await harness.settle();
    }
    expect(digits()).toEqual([["9223372036854775807", "9007199254740993"]]);
    // Both are the same JavaScript number.
    const body = exactText({ spec: { template: template(9007199254740992n) } });
    const headers = { "content-type": "application/merge-patch+json" };
    await harness.api.server.request({ method: "PATCH", path: resourcePath("deployments", "shop", "web"), headers, body });
    await harness.stream();
    await harness.handle();
    expect(digits()).toContainEqual(["9223372036854775807", "9007199254740992"]);
    expect(digits()).toHaveLength(2);
  });

  it("[deployment T2] writes only the status of a Deployment that is being deleted", async () => {
    const harness = await SyncHarness.of([liveDeployment(1, { deletionTimestamp: NOW })]);
    await harness.handle();
    expect(harness.spoken()).toEqual(["patch deployments/status web"]);
  });

  it("still updates the ReplicaSet's revision and annotations, and adopts nothing, for a Deployment that is being deleted (quirk Q9)", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, { deletionTimestamp: NOW }),
      liveReplicaSet("web-1", "v1", 1),
      liveReplicaSet("other", "v1", 1, { owner: null }),
    ]);
    await harness.handle();
    expect(harness.spoken()).toEqual(["patch replicasets web-1", "patch deployments/status web"]);
  });

  it("[deployment T3] adopts nothing for a Deployment that the live read shows as being deleted", async () => {
    const harness = await SyncHarness.of([liveDeployment(1), liveReplicaSet("web-1", "v1", 1, { owner: null })]);
    await harness.api.terminate("deployments", "web");
    await expect(harness.handle()).rejects.toThrow(`can't adopt ReplicaSet shop/web-1 (${harness.uid("uid-web-1")})`);
    expect(harness.spoken()).toEqual(["get deployments web"]);
  });

  it("[deployment T4] only emits a Warning Event for an empty selector", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, { status: { observedGeneration: 1 } }),
      liveReplicaSet("web-1", "v1", 1, { owner: null }),
    ]);
    await harness.forgeSpec("deployments", "web", { selector: {} });
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.spoken()).toEqual([]);
    expect(harness.events).toEqual(["SelectingAll: This deployment is selecting all pods. A non-empty selector is required."]);
  });

  it("in shadow mode, the warning about an empty selector is only in the trace, and the Store correlates no Event", async () => {
    const harness = await SyncHarness.of([liveDeployment(1, { status: { observedGeneration: 1 } })], { mode: "shadow" });
    await harness.forgeSpec("deployments", "web", { selector: {} });
    await harness.handle();
    expect(harness.events).toEqual([]);
    expect(harness.storeCalls).not.toContain("correlateEvents");
    expect(harness.traced).toMatchObject([
      { kind: "reason", reason: { rule: "selects everything" } },
      { kind: "event", note: { reason: "SelectingAll" } },
    ]);
  });

  it("a Deployment with an empty selector only gets observedGeneration, and its sync succeeds even if that write fails", async () => {
    const harness = await SyncHarness.of([liveDeployment(1, { generation: 3 })]);
    await harness.forgeSpec("deployments", "web", { selector: {} });
    harness.api.script = { "*": quota };
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.requests[0]?.body).toMatchObject({ status: { observedGeneration: 3 } });
  });

  it("[deployment T6] each of two Deployments with one selector keeps its own ReplicaSet", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, {}, "web"),
      liveDeployment(1, {}, "two"),
      liveReplicaSet("web-1", "v1", 1, { revision: "1", sizedFor: [1, 2] }),
      liveReplicaSet("two-1", "v1", 1, { owner: "two", revision: "1", sizedFor: [1, 2] }),
    ]);
    await harness.handle("shop/web");
    await harness.handle("shop/two");
    expect(harness.written().filter((line) => line.includes("replicasets"))).toEqual([]);
  });

  it("[deployment T6] claims its own ReplicaSet and ignores another controller's", () => {
    const [own, foreign] = [replicaSet("own"), replicaSet("foreign", { owner: ownedBy("two", "uid-two") })];
    const selector = compileSelector({ matchLabels: { app: "web" } });
    if (selector.kind === "Invalid") throw new Error(selector.message);
    expect(claimReplicaSets(deployment(), selector, [own, foreign])).toEqual({ owned: [own], writes: [], why: [] });
  });

  it("[deployment T7] adopts a matching orphan and releases what no longer matches", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1),
      liveReplicaSet("orphan", "v1", 1, { owner: null, revision: "1", sizedFor: [1, 2] }),
      liveReplicaSet("stray", "v1", 1, { labels: { app: "else" } }),
    ]);
    await harness.handle();
    expect(harness.spoken().slice(0, 3)).toEqual(["get deployments web", "patch replicasets stray", "patch replicasets orphan"]);
    expect(harness.live("replicasets", "orphan").metadata.ownerReferences).toMatchObject([
      { uid: harness.uid("uid-web"), controller: true },
    ]);
    expect(harness.live("replicasets", "stray").metadata).not.toHaveProperty("ownerReferences");
  });

  it("continues with the claimed ReplicaSets only if every claim succeeded", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1),
      liveReplicaSet("a", "v1", 1, { owner: null }),
      liveReplicaSet("b", "v1", 1, { owner: null, age: 1 }),
    ]);
    harness.api.script = { "*": ({ name }) => (name === "b" ? quota : undefined) };
    await expect(harness.handle()).rejects.toThrow("exceeded quota");
    expect(harness.live("replicasets", "a").metadata.ownerReferences).toHaveLength(1);
    expect(harness.written()).toEqual(["patch replicasets a", "patch replicasets b"]);
  });

  it("does nothing for a deleted Deployment, and fails for an invalid selector or an unknown strategy", async () => {
    expect(await (await SyncHarness.of([])).handle()).toEqual({ kind: "done" });
    const gone = await SyncHarness.of([liveDeployment(1)]);
    const { primary, ...snapshot } = await gone.snapshot();
    const key = { epoch: "epoch-1", controller: "deployment", key: "shop/web", token: "t", mayWrite: () => true } as const;
    expect(
      await syncDeployment(
        createSession(gone.ports, { ...key, snapshot: { ...snapshot, ...(primary && { primary: { ...primary, gone: true } }) } }),
      ),
    ).toEqual({ kind: "done" });
    expect(gone.spoken()).toEqual([]);
    // Current API servers reject these.
    const invalid = await SyncHarness.of([liveDeployment(1)]);
    await invalid.forgeSpec("deployments", "web", { selector: { matchExpressions: [{ key: "a", operator: "Near" }] } });
    await expect(invalid.handle()).rejects.toThrow("deployment shop/web has invalid label selector: ");
    const strange = await SyncHarness.of([liveDeployment(1)]);
    await strange.forgeSpec("deployments", "web", { strategy: { type: "Sometimes" } });
    await expect(strange.handle()).rejects.toThrow("unexpected deployment strategy type: Sometimes");
    expect(strange.spoken()).toEqual([]);
  });

  it("decides but sends nothing in shadow mode", async () => {
    const harness = await SyncHarness.of([liveDeployment(1)], { mode: "shadow" });
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.written()).toEqual([]);
    const lines = harness.traced.filter(({ kind }) => kind === "decided" || kind === "notDecided");
    expect(lines.map((line) => (line.kind === "decided" ? line.write.kind : line.kind))).toEqual([
      "CreateReplicaSet",
      "notDecided",
      "notDecided",
    ]);
  });
});

describe("creation of the new ReplicaSet", () => {
  let harness: SyncHarness;
  /** An old ReplicaSet of 4; the Deployment has just received image v2 and a deadline. */
  beforeEach(async () => {
    harness = await SyncHarness.of([
      liveDeployment(4, {
        image: "v2",
        annotations: { [REVISION]: "1" },
        spec: { progressDeadlineSeconds: 60 },
        status: { observedGeneration: 1, replicas: 4, updatedReplicas: 4, readyReplicas: 4, availableReplicas: 4, terminatingReplicas: 0 },
      }),
      liveReplicaSet("web-1", "v1", 4, { revision: "1", sizedFor: [4, 5] }),
    ]);
  });
  const created = (): string => harness.names("replicasets").find((name) => name !== "web-1") ?? "none";

  it("[deployment S3] creates no ReplicaSet if the live list contains one with an equal template", async () => {
    await harness.put(liveReplicaSet("web-2", "v2", 1, { age: 1, revision: "2", sizedFor: [4, 5], available: 0 }));
    await harness.handle();
    expect(harness.names("replicasets")).toEqual(["web-1", "web-2"]);
    // The Deployment is read in parallel with the list.
    expect(harness.spoken().slice(0, 3)).toEqual(["list replicasets", "get deployments web", "patch deployments/status web"]);
    expect(conditionsOf(harness)).toContainEqual(
      condition("Progressing", "True", "FoundNewReplicaSet", { message: 'Found new replica set "web-2"' }),
    );
    // The cache contains the listed ReplicaSet from now on.
    expect((await harness.snapshot()).dependents.map(({ key }) => key)).toEqual(["shop/web-1", "shop/web-2"]);
  });

  it("[deployment S4] computes size and revision from the live list", async () => {
    await harness.put(liveReplicaSet("web-x", "vx", 1, { age: 1, revision: "7" }));
    await harness.handle();
    const body = harness.live("replicasets", created() === "web-x" ? (harness.names("replicasets").at(-1) ?? "") : created());
    // All 5 of at most 5 pods exist already.
    expect([body.spec?.["replicas"], body.metadata.annotations?.[REVISION]]).toEqual([0, "8"]);
    expect(harness.events).toEqual(["ScalingReplicaSet: Scaled down replica set web-1 from 4 to 2"]);
  });

  it("ignores ReplicaSets of the live list that another controller owns", async () => {
    await harness.put(liveReplicaSet("foreign", "v2", 1, { age: 1, owner: "other" }));
    await harness.handle();
    expect(harness.names("replicasets")).toHaveLength(3);
    expect(harness.written().filter((line) => line.includes("foreign"))).toEqual([]);
  });

  it("[deployment T108] adopts an orphan that only the live list contains, and creates no ReplicaSet", async () => {
    await harness.put(liveReplicaSet("left", "v2", 1, { age: 1, owner: null }));
    await harness.handle();
    expect(harness.names("replicasets")).toEqual(["web-1", "left"]);
    expect(harness.written()[0]).toBe("patch replicasets left");
    expect(harness.live("replicasets", "left").metadata.ownerReferences).toMatchObject([{ name: "web", controller: true }]);
    expect(statusOf(harness)).not.toHaveProperty("collisionCount");
  });

  it("[deployment T108] adopts an orphan with the name of the new ReplicaSet while the cache still contains its previous owner", async () => {
    await harness.handle();
    const name = created();
    const { ownerReferences: [ours] = [] } = harness.live("replicasets", name).metadata;
    await harness.change(
      "replicasets",
      name,
      (rs) => ({ ...rs, metadata: { ...rs.metadata, ownerReferences: [{ ...ours, uid: "of-before" }] } }) as Live,
    );
    await harness.stream();
    await harness.change("replicasets", name, ({ metadata: { ownerReferences: _, ...metadata }, ...rs }) => ({ ...rs, metadata }) as Live);
    await harness.handle();
    expect(harness.live("replicasets", name).metadata.ownerReferences).toEqual([ours]);
    expect(harness.names("replicasets")).toEqual(["web-1", name]);
    expect(statusOf(harness)).not.toHaveProperty("collisionCount");
  });

  it.each(["before the list", "concurrently with the list"])(
    "[deployment T108] does not adopt listed ReplicaSets if the Deployment, read %s, is deleted before the adoption",
    async (when) => {
      // The cache contains the ReplicaSet as an orphan: it is adopted first, after a read of the Deployment.
      if (when === "before the list") await harness.put(liveReplicaSet("known", "v0", 1, { age: 1, owner: null }));
      await harness.stream();
      harness.api.script = {
        "list replicasets": async () => {
          await harness.put(liveReplicaSet("left", "v2", 1, { age: 1, owner: null }));
          await setImmediate(); // time for the read
          await harness.api.remove("deployments", "web");
        },
      };
      await expect(harness.handle()).rejects.toThrow('deployments.apps "web" not found');
      expect(harness.spoken().filter((line) => line === "get deployments web")).toHaveLength(2);
      expect(harness.live("replicasets", "left").metadata.ownerReferences).toBeUndefined();
    },
  );

  it.each([
    { name: "a slow list", get: undefined, list: 500 },
    { name: "a failed read of the Deployment during the list", get: new UnansweredError("no answer"), list: 0 },
  ])("reads the Deployment again after $name, and decides on that version", async ({ get, list }) => {
    harness.api.script = {
      "list replicasets": async () => {
        await setImmediate(); // time for the read
        await harness.clock.advance(list);
        await harness.change(
          "deployments",
          "web",
          ({ spec, ...rest }) => ({ ...rest, spec: { ...spec, template: podTemplate("v3") } }) as Live,
        );
      },
      "get deployments": (_, nth) => (nth === 1 ? get : undefined),
    };
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(harness.written()).toEqual([]);
  });

  it("does not wait for the Deployment's read if the list makes it unnecessary", async () => {
    await harness.put(liveReplicaSet("web-2", "v2", 1, { age: 1, revision: "2", sizedFor: [4, 5], available: 0 }));
    harness.api.script = { "get deployments": () => new Promise(() => undefined) };
    await harness.handle();
    expect(harness.spoken()).toContain("patch deployments/status web");
  });

  it("starts with the size that maxSurge allows, and scales old ReplicaSets down in the same sync", async () => {
    await harness.handle();
    const name = created();
    expect(harness.events).toEqual([
      `ScalingReplicaSet: Scaled up replica set ${name} from 0 to 1`,
      "ScalingReplicaSet: Scaled down replica set web-1 from 4 to 3",
    ]);
    expect(harness.sizes()).toEqual({ "web-1": 3, [name]: 1 });
    expect(conditionsOf(harness)).toContainEqual(
      condition("Progressing", "True", "NewReplicaSetCreated", { message: `Created new replica set "${name}"` }),
    );
    expect(revisionOf(harness)).toBe("2");
  });

  it("creates nothing if the live Deployment has changed since the decision", async () => {
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, template: podTemplate("v3") } }));
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(harness.written()).toEqual([]);
  });

  it("creates nothing for a Deployment whose deletion has started since the decision", async () => {
    await harness.api.terminate("deployments", "web");
    // Deletion changes the generation, so the key runs again and then does nothing.
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(harness.written()).toEqual([]);
    await harness.handle();
    expect(harness.written().filter((line) => line.startsWith("create"))).toEqual([]);
  });

  it("[deployment S2] uses an existing ReplicaSet of that name with an equal template, without an Event, condition or collision", async () => {
    // The list returns the state before a delayed run creates the ReplicaSet.
    let made = false;
    harness.api.script = {
      "create replicasets": async ({ body }) => {
        if (made) return;
        made = true;
        const { metadata, spec } = body as Live; // the body that this controller sends
        const ours = liveReplicaSet(metadata.name, "v2", 1, { age: 1, revision: "2", sizedFor: [4, 5], available: 0 });
        await harness.put({ ...ours, metadata: { ...ours.metadata, labels: metadata.labels ?? {} }, ...(spec && { spec }) });
      },
    };
    await harness.handle();
    expect(made).toBe(true);
    expect(statusOf(harness)).not.toHaveProperty("collisionCount");
    expect(harness.events).toEqual(["ScalingReplicaSet: Scaled down replica set web-1 from 4 to 3"]);
    expect(revisionOf(harness)).toBe("2");
    expect(conditionsOf(harness)).not.toContainEqual(expect.objectContaining({ reason: "NewReplicaSetCreated" }));
  });

  it("[deployment T97] increments the collision count when a ReplicaSet with another template has the name, and the next attempt uses another name", async () => {
    await harness.handle();
    const first = created();
    const { labels = {} } = harness.live("replicasets", first).metadata;
    await harness.change("replicasets", first, (rs) => ({ ...rs, spec: { ...rs.spec, template: podTemplate("edited", labels) } }));
    await harness.settle();
    await expect(harness.handle()).rejects.toThrow("already exists");
    expect(statusOf(harness)["collisionCount"]).toBe(1);
    expect(harness.events).toHaveLength(2);
    await harness.stream();
    await harness.handle();
    const second = harness.names("replicasets").at(-1) ?? "";
    expect(second).not.toBe(first);
    expect(harness.live("replicasets", second).metadata.annotations?.[REVISION]).toBe("3");
  });

  it("[deployment T98] increments the collision count if the ReplicaSet of that name was released", async () => {
    await harness.handle();
    const first = created();
    await harness.change("replicasets", first, (rs) => ({ ...rs, metadata: { ...rs.metadata, labels: { app: "else" } } }));
    await harness.stream();
    await expect(harness.handle()).rejects.toThrow("already exists");
    expect(harness.live("replicasets", first).metadata).not.toHaveProperty("ownerReferences");
    await harness.stream();
    await harness.handle();
    expect(harness.names("replicasets")).toHaveLength(3);
    // The labels are restored, so that the old ReplicaSet is adopted again.
    await harness.change("replicasets", first, (rs) => ({ ...rs, metadata: { ...rs.metadata, labels: { app: "web" } } }));
    await harness.stream();
    await harness.handle();
    expect(harness.live("replicasets", first).metadata.ownerReferences).toHaveLength(1);
  });

  it("keeps the collision count if the object of that name has been deleted meanwhile", async () => {
    harness.api.script = { "create replicasets": refusal(409, "AlreadyExists", "already exists") };
    await expect(harness.handle()).rejects.toThrow("already exists");
    expect(harness.written()).toEqual([expect.stringMatching(/^create replicasets /)]);
  });

  it("records rejected creates as a counted Event, and once as a condition", async () => {
    harness.api.script = { "create replicasets": quota };
    await expect(harness.handle()).rejects.toThrow("exceeded quota");
    await harness.stream();
    await expect(harness.handle()).rejects.toThrow("exceeded quota");
    expect(harness.events).toEqual([harness.events[0], expect.stringMatching(/^2 Failed to create new replica set/)]);
    expect(harness.events[0]).toMatch(/^ReplicaSetCreateError: Failed to create new replica set "web-[a-z0-9]+": exceeded quota$/);
    expect(harness.written().filter((line) => line.includes("status"))).toHaveLength(1);
    expect(conditionsOf(harness)).toEqual([
      expect.objectContaining({ type: "Progressing", status: "False", reason: "ReplicaSetCreateError" }),
    ]);
  });

  it("ignores a terminating namespace, without an error, Event or condition", async () => {
    harness.api.script = { "create replicasets": refusal(403, "Forbidden", "being terminated", [{ reason: "NamespaceTerminating" }]) };
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.events).toEqual([]);
    expect(harness.written()).toHaveLength(1);
  });
});

describe("rolling update", () => {
  it("follows the example trace of §11.4", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(4, { surge: "25%", unavailable: "25%", image: "v2", annotations: { [REVISION]: "1" } }),
      liveReplicaSet("web-1", "v1", 4, { revision: "1", sizedFor: [4, 5] }),
    ]);
    await harness.handle();
    const fresh = harness.names("replicasets")[1] ?? "";
    /** Sets the ReplicaSets' statuses with `available` available new pods, then runs one sync. */
    const step = async (available: number): Promise<readonly [unknown, unknown]> => {
      await harness.settle((rs) => (rs.metadata.name === fresh ? available : Number(rs.spec?.["replicas"])));
      await harness.handle();
      return [harness.sizes()["web-1"], harness.sizes()[fresh]];
    };
    expect([harness.sizes()["web-1"], harness.sizes()[fresh]]).toEqual([3, 1]);
    expect(await step(0)).toEqual([3, 2]);
    expect(await step(0)).toEqual([3, 2]);
    expect(await step(1)).toEqual([2, 2]);
    expect(await step(1)).toEqual([2, 3]);
    expect(await step(1)).toEqual([2, 3]);
    expect(await step(2)).toEqual([1, 3]);
    expect(await step(2)).toEqual([1, 4]);
    expect(await step(3)).toEqual([0, 4]);
    expect(await step(4)).toEqual([0, 4]);
    expect(statusOf(harness)).toMatchObject({ replicas: 4, updatedReplicas: 4, availableReplicas: 4 });
    harness.spoken();
    await harness.handle();
    expect(harness.spoken()).toEqual([]);
  });

  it("[deployment T101] rolls over unfinished rollouts to the last revision, and never exceeds maxSurge", async () => {
    const harness = await SyncHarness.of([liveDeployment(20, { surge: "25%", unavailable: "25%" })]);
    const check = (): void =>
      expect(Object.values(harness.sizes()).reduce<number>((sum, size) => sum + Number(size), 0)).toBeLessThanOrEqual(25);
    await converge(harness, check);
    for (const image of ["v2", "v3"]) {
      await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, template: podTemplate(image) } }));
      await harness.stream();
      await harness.handle();
      check();
      await harness.settle();
    }
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, template: podTemplate("v4") } }));
    await harness.stream();
    await converge(harness, check);
    expect(revisionOf(harness)).toBe("4");
    expect(Object.values(harness.sizes()).toSorted()).toEqual([0, 0, 0, 20]);
  });

  /** The new ReplicaSet is complete and only old pods remain; S6 concerns the cached view of it. */
  const shrinking = (): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(4, { image: "v2", annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 2, { revision: "1", sizedFor: [4, 5] }),
      liveReplicaSet("web-2", "v2", 4, { revision: "2", sizedFor: [4, 5], age: 1 }),
    ]);

  it("[deployment S6] scales available pods down only after a live list", async () => {
    const harness = await shrinking();
    await harness.handle();
    expect(harness.spoken().slice(0, 2)).toEqual(["list replicasets", "patch replicasets web-1"]);
    const stale = await shrinking();
    // The new pods become unavailable, but the cache does not contain that yet.
    await stale.change("replicasets", "web-2", (rs) => ({ ...rs, status: { ...rs.status, availableReplicas: 1 } }));
    await stale.handle();
    expect(stale.sizes()["web-1"]).toBe(2);
  });

  it("[deployment S7] does not scale down twice before the ReplicaSet controller has observed the first change", async () => {
    const harness = await shrinking();
    await harness.handle();
    expect(harness.sizes()["web-1"]).toBe(0);
    const again = await SyncHarness.of([
      liveDeployment(10, { image: "v2", surge: 2, unavailable: 2, annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 8, { revision: "1", sizedFor: [10, 12], pods: 10 }),
      liveReplicaSet("web-2", "v2", 4, { revision: "2", sizedFor: [10, 12], age: 1 }),
    ]);
    await again.handle();
    expect(again.sizes()).toEqual({ "web-1": 8, "web-2": 4 });
  });

  it("[deployment S6] does not scale down after a list that contains a second ReplicaSet with the new template", async () => {
    const harness = await shrinking();
    await harness.put(liveReplicaSet("web-0", "v2", 0, { revision: "0" }));
    await harness.handle();
    expect(harness.sizes()["web-1"]).toBe(2);
    // The next sync, enqueued by the write-through, continues with it.
    expect((await harness.snapshot()).dependents).toHaveLength(3);
  });

  it("makes no live list if only unavailable pods are removed", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(4, { image: "v2", annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 2, { revision: "1", sizedFor: [4, 5], available: 0 }),
      liveReplicaSet("web-2", "v2", 4, { revision: "2", sizedFor: [4, 5], age: 1 }),
    ]);
    await harness.handle();
    expect(harness.sizes()["web-1"]).toBe(0);
    expect(harness.spoken()).toEqual(["patch replicasets web-1", "patch deployments/status web"]);
  });

  it("does not count available pods of a ReplicaSet beyond its desired size", async () => {
    // 4 + 4 desired pods and a minimum of 8: the budget is 0. The old ReplicaSet still reports 10 available pods.
    const harness = await SyncHarness.of([
      liveDeployment(10, { image: "v2", surge: 0, unavailable: 2, annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 4, { revision: "1", sizedFor: [10, 10], pods: 10 }),
      liveReplicaSet("web-2", "v2", 6, { revision: "2", sizedFor: [10, 10], age: 1, available: 4 }),
    ]);
    await harness.handle();
    expect(harness.sizes()["web-1"]).toBe(4);
  });

  it("ignores a conflict while scaling down, writes the status, and emits no Event", async () => {
    const harness = await shrinking();
    harness.api.script = {
      "patch replicasets": () =>
        harness.change("replicasets", "web-1", (rs) => ({
          ...rs,
          metadata: { ...rs.metadata, annotations: { ...rs.metadata.annotations, a: "b" } },
        })),
    };
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.written()).toEqual(["patch replicasets web-1", "patch deployments/status web"]);
    expect(harness.events).toEqual([]);
  });

  const unfollowed = [
    { name: "no response", error: new UnansweredError("no answer") },
    ...[403, 422, 429, 500].map((code) => ({
      name: `a ${code} response`,
      error: refusal(code, code === 422 ? "Invalid" : "Some", `says ${code}`),
    })),
  ];
  it.each(unfollowed)("$name to a scale-down does not prevent the status write, but fails the sync", async ({ error }) => {
    const harness = await shrinking();
    harness.api.script = { "patch replicasets": error };
    await expect(harness.handle()).rejects.toThrow(error.message);
    expect(harness.written()).toEqual(["patch replicasets web-1", "patch deployments/status web"]);
    expect(harness.events).toEqual([]);
  });

  it("fails the sync without a status write after a conflict while scaling up", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(4, { annotations: { [REVISION]: "1" } }),
      liveReplicaSet("web-1", "v1", 2, { revision: "1", sizedFor: [4, 5] }),
    ]);
    await harness.change("replicasets", "web-1", (rs) => ({ ...rs, status: { ...rs.status, availableReplicas: 1 } }));
    await expect(harness.handle()).rejects.toThrow("cannot be fulfilled");
    expect(harness.written()).toEqual(["patch replicasets web-1"]);
  });

  it("[deployment T52] uses the response to the first scale-down of a ReplicaSet for the second", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(10, { image: "v2", surge: 0, unavailable: 2, annotations: { [REVISION]: "2" } }),
      liveReplicaSet("web-1", "v1", 10, { revision: "1", sizedFor: [10, 10], available: 9 }),
      liveReplicaSet("web-2", "v2", 0, { revision: "2", sizedFor: [10, 10], age: 1 }),
    ]);
    await harness.handle();
    expect(harness.sizes()["web-1"]).toBe(8);
    expect(harness.events).toEqual([
      "ScalingReplicaSet: Scaled down replica set web-1 from 10 to 9",
      "ScalingReplicaSet: Scaled down replica set web-1 from 9 to 8",
    ]);
  });
});

describe("recreate", () => {
  const recreate = (objects: Parameters<typeof liveReplicaSet>[3], ...pods: ReturnType<typeof livePod>[]): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(3, { strategy: "Recreate", image: "v2", annotations: { [REVISION]: "1" } }),
      liveReplicaSet("web-1", "v1", 0, { revision: "1", sizedFor: [3, 3], ...objects }),
      ...pods,
    ]);

  it("scales old ReplicaSets to 0, waits until their pods have ended, and then creates the new one at full size", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(3, { strategy: "Recreate", image: "v2", annotations: { [REVISION]: "1" } }),
      liveReplicaSet("web-1", "v1", 3, { revision: "1", sizedFor: [3, 3] }),
      livePod("p", "web-1"),
    ]);
    await harness.handle();
    expect(harness.sizes()).toEqual({ "web-1": 0 });
    await harness.settle();
    harness.spoken();
    await harness.handle();
    expect(harness.sizes()).toEqual({ "web-1": 0 });
    // The cached view suffices for the decision to wait.
    expect(harness.spoken()).toEqual(["patch deployments/status web"]);
    await harness.api.remove("pods", "p");
    await harness.stream();
    await harness.handle();
    expect(Object.values(harness.sizes())).toEqual([0, 3]);
    expect(harness.events.at(-1)).toMatch(/^ScalingReplicaSet: Scaled up replica set web-[a-z0-9]+ from 0 to 3$/);
  });

  it("starts no pod in the sync that scales old ReplicaSets to 0, whatever their status is", async () => {
    const harness = await recreate({ status: { observedGeneration: 1 } });
    await harness.change("replicasets", "web-1", (rs) => ({ ...rs, spec: { ...rs.spec, replicas: 2 } }));
    await harness.stream();
    await harness.handle();
    expect(harness.sizes()).toEqual({ "web-1": 0 });
  });

  it("[deployment S14] creates no ReplicaSet while an old pod exists that only the live list contains, and writes that pod through", async () => {
    const harness = await recreate({ status: { observedGeneration: 1 } });
    await harness.put(livePod("late", "web-1"));
    await harness.handle();
    expect(harness.names("replicasets")).toEqual(["web-1"]);
    expect(harness.spoken().slice(0, 2)).toEqual(["list replicasets", "list pods"]);
    const [slice] = await harness.store.readSlices([{ resource: "pods", owner: replicaSetOwner(harness.uid("uid-web-1"), "web-1") }]);
    expect(slice?.map(({ key }) => key)).toEqual(["shop/late"]);
  });

  it("[deployment S14] creates no ReplicaSet while the live list shows an old ReplicaSet that is not at 0", async () => {
    const harness = await recreate({ status: { observedGeneration: 1 } });
    await harness.change("replicasets", "web-1", (rs) => ({ ...rs, spec: { ...rs.spec, replicas: 2 } }));
    await harness.handle();
    expect(harness.names("replicasets")).toEqual(["web-1"]);
  });

  it("does not wait for finished pods", async () => {
    const harness = await recreate({ status: { observedGeneration: 1 } }, livePod("p", "web-1", "Succeeded"));
    await harness.handle();
    expect(harness.names("replicasets")).toHaveLength(2);
  });

  /** Reports a ReplicaSet's status as its controller does; without `terminating`, as from an API server whose feature gate is off. */
  const reports = async (harness: SyncHarness, name: string, replicas: number, terminating?: number): Promise<void> => {
    const { metadata } = harness.live("replicasets", name);
    const counts = { replicas, readyReplicas: replicas, availableReplicas: replicas };
    const status = {
      ...counts,
      observedGeneration: metadata.generation,
      ...(terminating !== undefined && { terminatingReplicas: terminating }),
    };
    await harness.change("replicasets", name, (rs) => ({ ...rs, status }));
    await harness.stream();
  };
  const resize = async (harness: SyncHarness, replicas: number): Promise<void> => {
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, replicas } }));
    await harness.stream();
    await harness.handle();
  };

  it.each([
    { gate: "on", told: (count: number): number | undefined => count },
    { gate: "off", told: (): undefined => undefined },
  ])(
    "[deployment T77] waits for pods with a long grace period, counts them with the gate $gate, and is scaled while others still terminate",
    async ({ told }) => {
      const harness = await SyncHarness.of([
        liveDeployment(6, { strategy: "Recreate", image: "v2", annotations: { [REVISION]: "1" } }),
        liveReplicaSet("web-1", "v1", 6, { revision: "1", sizedFor: [6, 6] }),
        ...["a", "b", "c", "d", "e", "f"].map((name) => livePod(name, "web-1")),
      ]);
      const expectCounts = (replicas: number, terminating: number): void => {
        const counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
        expect(counts.map((count) => statusOf(harness)[count] ?? 0)).toEqual(counts.map(() => replicas));
        expect(statusOf(harness)["unavailableReplicas"] ?? 0).toBe(0);
        expect(statusOf(harness)["terminatingReplicas"]).toBe(told(terminating));
      };
      await harness.handle();
      expect(harness.sizes()).toEqual({ "web-1": 0 });
      // During their grace period, the pods exist but do not count as replicas.
      for (const name of ["a", "b", "c", "d", "e", "f"]) await harness.api.terminate("pods", name);
      await reports(harness, "web-1", 0, told(6));
      await harness.handle();
      expect(harness.names("replicasets")).toEqual(["web-1"]);
      expectCounts(0, 6);

      for (const name of ["a", "b", "c", "d", "e", "f"]) await harness.api.remove("pods", name);
      await reports(harness, "web-1", 0, told(0));
      await harness.handle();
      const fresh = harness.names("replicasets")[1] ?? "none";
      expect(harness.sizes()).toEqual({ "web-1": 0, [fresh]: 6 });
      await reports(harness, fresh, 6, told(0));
      await harness.handle();
      expectCounts(6, 0);

      // One pod is deleted and replaced; then the desired size is 7, then 5.
      await reports(harness, fresh, 6, told(1));
      await harness.handle();
      expectCounts(6, 1);
      await resize(harness, 7);
      await reports(harness, fresh, 7, told(1));
      await harness.handle();
      expectCounts(7, 1);
      await resize(harness, 5);
      await reports(harness, fresh, 5, told(3));
      await harness.handle();
      expectCounts(5, 3);
      expect(harness.sizes()).toEqual({ "web-1": 0, [fresh]: 5 });
      await reports(harness, fresh, 5, told(0));
      await harness.handle();
      expectCounts(5, 0);
      expect(harness.names("replicasets")).toEqual(["web-1", fresh]);
    },
  );

  it("[deployment T121] reports terminatingReplicas while the ReplicaSet reports it, and removes it when the ReplicaSet does not", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(6, { strategy: "Recreate", annotations: { [REVISION]: "1" } }),
      liveReplicaSet("web-1", "v1", 6, { revision: "1", sizedFor: [6, 6], status: { observedGeneration: 1, replicas: 6 } }),
    ]);
    const counts: unknown[] = [];
    await harness.handle();
    counts.push(statusOf(harness)["terminatingReplicas"]);
    for (const [replicas, terminating] of [
      [4, undefined],
      [3, 3],
      [2, undefined],
    ] as const) {
      await resize(harness, replicas);
      await reports(harness, "web-1", replicas, terminating);
      await harness.handle();
      counts.push(statusOf(harness)["terminatingReplicas"]);
    }
    expect(counts).toEqual([undefined, undefined, 3, undefined]);
  });

  it("[deployment T115] follows spec.replicas after the rollout, and updates observedGeneration after a change without effect", async () => {
    const harness = await SyncHarness.of([liveDeployment(2, { strategy: "Recreate" })]);
    await converge(harness);
    for (const replicas of [0, 1]) {
      await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, replicas } }));
      await harness.stream();
      await converge(harness);
      expect(Object.values(harness.sizes())).toEqual([replicas]);
    }
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, revisionHistoryLimit: 3 } }));
    await harness.stream();
    await converge(harness);
    expect(statusOf(harness)["observedGeneration"]).toBe(harness.live("deployments", "web").metadata.generation);
  });
});

describe("scale path", () => {
  const resized = (): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(10, { image: "v2", surge: 0, annotations: { [REVISION]: "2" } }),
      liveReplicaSet("v1", "v1", 3, { revision: "1", sizedFor: [5, 5] }),
      liveReplicaSet("v2", "v2", 2, { revision: "2", sizedFor: [5, 5], age: 1 }),
    ]);

  it("[deployment T24] scales a resized Deployment proportionally, and takes no rollout step", async () => {
    const harness = await resized();
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.written()).toEqual(["patch replicasets v1", "patch replicasets v2", "patch deployments/status web"]);
    expect(harness.sizes()).toEqual({ v1: 6, v2: 4 });
    expect(conditionsOf(harness).map((each) => (each as Json)["type"])).toEqual(["Available"]);
  });

  it("[deployment S12] resumes proportional scaling where it stopped after a failure", async () => {
    const harness = await resized();
    harness.api.script = { "*": ({ name }) => (name === "v2" ? quota : undefined) };
    await expect(harness.handle()).rejects.toThrow("exceeded quota");
    expect(harness.sizes()).toEqual({ v1: 6, v2: 2 });
    harness.api.script = {};
    await harness.stream();
    await harness.handle();
    expect(harness.sizes()).toEqual({ v1: 6, v2: 4 });
  });

  const paused = { paused: true, progressDeadlineSeconds: 60 };

  it("[deployment T117] never creates a ReplicaSet for a paused Deployment, and reports the pause", async () => {
    const harness = await SyncHarness.of([liveDeployment(2, { spec: paused })]);
    await harness.handle();
    expect(harness.names("replicasets")).toEqual([]);
    expect(conditionsOf(harness)[0]).toEqual(condition("Progressing", "Unknown", "DeploymentPaused", { message: "Deployment is paused" }));
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, paused: false } }));
    await harness.stream();
    await converge(harness);
    expect(revisionOf(harness)).toBe("1");
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, paused: true, template: podTemplate("v9") } }));
    await harness.stream();
    await converge(harness);
    expect(harness.names("replicasets")).toHaveLength(1);
    expect(statusOf(harness)).not.toHaveProperty("updatedReplicas");
  });

  it("[deployment T118] scales a paused Deployment", async () => {
    const harness = await SyncHarness.of([liveDeployment(1)]);
    await converge(harness);
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, paused: true, replicas: 10 } }));
    await harness.stream();
    await converge(harness);
    expect(Object.values(harness.sizes())).toEqual([10]);
  });

  it("cleans up a paused Deployment, unless a rollback is requested", async () => {
    const objects = (annotations: Readonly<Record<string, string>>): Promise<SyncHarness> =>
      SyncHarness.of([
        liveDeployment(1, { image: "v3", annotations, spec: { paused: true, revisionHistoryLimit: 0 } }),
        liveReplicaSet("v1", "v1", 0, { revision: "1" }),
        liveReplicaSet("v3", "v3", 1, { revision: "3", age: 3 }),
      ]);
    const plain = await objects({});
    await plain.handle();
    expect(plain.names("replicasets")).toEqual(["v3"]);
    const rollback = await objects({ "deprecated.deployment.rollback.to": "1" });
    await rollback.handle();
    expect(rollback.names("replicasets")).toEqual(["v1", "v3"]);
  });

  it("cleans up a paused Deployment in the order that scaling leaves, youngest first, if invalid revisions make the order of revisions cyclic", async () => {
    const harness = await SyncHarness.of([
      liveDeployment(1, { image: "v9", spec: { paused: true, revisionHistoryLimit: 1 } }),
      ...["3", "", "1"].map((revision, age) => liveReplicaSet(`v${age}`, `v${age}`, 0, { revision, age })),
      liveReplicaSet("v9", "v9", 1, { revision: "9", age: 9 }),
    ]);
    await harness.handle();
    expect(harness.names("replicasets")).toEqual(["v0", "v9"]);
  });

  it("continues the rollout, without proportional scaling, if a ReplicaSet has no size annotations", async () => {
    const harness = await SyncHarness.of([liveDeployment(2, { image: "v2" }), liveReplicaSet("v1", "v1", 1)]);
    await harness.handle();
    expect(harness.names("replicasets")).toHaveLength(2);
  });
});

describe("history and deadline", () => {
  const complete = {
    observedGeneration: 1,
    replicas: 1,
    updatedReplicas: 1,
    readyReplicas: 1,
    availableReplicas: 1,
    terminatingReplicas: 0,
  };
  const objects = (status: Json, spec: Json = {}): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(1, { image: "v3", annotations: { [REVISION]: "3" }, status, spec: { revisionHistoryLimit: 0, ...spec } }),
      liveReplicaSet("v1", "v1", 0, { revision: "1" }),
      liveReplicaSet("v3", "v3", 1, { revision: "3", age: 3, sizedFor: [1, 2] }),
    ]);

  it("cleans up a completed rollout in the following sync, which it enqueues itself (quirk Q12)", async () => {
    const harness = await objects({});
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 0 });
    expect(harness.written()).toEqual(["patch deployments/status web"]);
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(harness.written()).toEqual(["delete replicasets v1"]);
  });

  it("[deployment S16] skips a ReplicaSet that was scaled up again", async () => {
    const harness = await objects(complete);
    await harness.change("replicasets", "v1", (rs) => ({ ...rs, spec: { ...rs.spec, replicas: 2 } }));
    await harness.handle();
    expect(harness.written()).toEqual(["delete replicasets v1", "patch deployments/status web"]);
    expect(harness.names("replicasets")).toEqual(["v1", "v3"]);
  });

  it("fails the sync before the status after an error during clean-up", async () => {
    const harness = await objects({ ...complete, unavailableReplicas: 1 });
    harness.api.script = { "delete replicasets": quota };
    await expect(harness.handle()).rejects.toThrow("exceeded quota");
    expect(harness.written()).toEqual(["delete replicasets v1"]);
  });

  const stuck = (reason: string, updated: string): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(1, {
        annotations: { [REVISION]: "1" },
        spec: { progressDeadlineSeconds: 60 },
        status: {
          observedGeneration: 1,
          replicas: 1,
          updatedReplicas: 1,
          unavailableReplicas: 1,
          terminatingReplicas: 0,
          conditions: [condition("Progressing", "True", reason, { updated }), condition("Available", "True", "MinimumReplicasAvailable")],
        },
      }),
      liveReplicaSet("web-1", "v1", 1, { revision: "1", sizedFor: [1, 2], available: 0 }),
    ]);

  it("[deployment T119] requeues an unchanged, unfinished rollout a second after its deadline", async () => {
    const harness = await stuck("ReplicaSetUpdated", "2026-03-01T09:59:30Z");
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 31_000 });
    expect(harness.spoken()).toEqual([]);
  });

  it("[deployment T119] reports the time-out after the deadline until there is progress", async () => {
    const harness = await stuck("ReplicaSetUpdated", "2026-03-01T09:58:00Z");
    expect(await harness.handle()).toEqual({ kind: "done" });
    expect(conditionsOf(harness).at(-1)).toMatchObject({
      status: "False",
      reason: "ProgressDeadlineExceeded",
      message: 'ReplicaSet "web-1" has timed out progressing.',
    });
    await harness.settle();
    await harness.handle();
    expect(conditionsOf(harness).at(-1)).toMatchObject({
      status: "True",
      reason: "NewReplicaSetAvailable",
      message: 'ReplicaSet "web-1" has successfully progressed.',
    });
  });

  it("requeues a second after the deadline after a status write, because no event follows", async () => {
    const harness = await stuck("NewReplicaSetCreated", "2026-03-01T09:59:30Z");
    await harness.change("replicasets", "web-1", (rs) => ({ ...rs, status: { ...rs.status, readyReplicas: 1 } }));
    await harness.stream();
    expect(await harness.handle()).toEqual({ kind: "again", afterMs: 61_000 });
    expect(harness.clock.now()).toBe(NOW_MS);
  });

  it("[deployment S20] does not requeue an incomplete Deployment with reason NewReplicaSetAvailable", async () => {
    expect(await (await stuck("NewReplicaSetAvailable", "2026-03-01T09:00:00Z")).handle()).toEqual({ kind: "done" });
  });

  it("[deployment S10] fails the sync, and does not write a status that was decided on an old version", async () => {
    const harness = await stuck("ReplicaSetUpdated", "2026-03-01T09:58:00Z");
    await harness.change("deployments", "web", (d) => ({ ...d, metadata: { ...d.metadata, labels: { app: "web", new: "1" } } }));
    await expect(harness.handle()).rejects.toMatchObject({ code: 409 });
    expect(conditionsOf(harness).at(0)).toMatchObject({ reason: "ReplicaSetUpdated" });
  });

  it("[deployment T112] keeps conditions of other clients", async () => {
    const foreign = { type: "StatusUpdate", status: "True", reason: "E2E", message: "set from e2e test" };
    const harness = await SyncHarness.of([liveDeployment(1, { status: { conditions: [foreign] } })]);
    await converge(harness);
    expect(conditionsOf(harness)[0]).toEqual({ ...foreign, lastTransitionTime: null, lastUpdateTime: null });
  });
});

describe("[deployment S27] a ReplicaSet after a patch with an unknown outcome", () => {
  /** With 7 old pods and a limit of 8, the rollout scales the new ReplicaSet to 1. */
  const rolling = (): Promise<SyncHarness> =>
    SyncHarness.of([
      liveDeployment(7, { image: "v3", surge: 1, unavailable: 0, annotations: { [REVISION]: "3" } }),
      liveReplicaSet("web-1", "v1", 1, { revision: "1", sizedFor: [7, 8] }),
      liveReplicaSet("web-2", "v2", 6, { revision: "2", sizedFor: [7, 8], age: 1 }),
      liveReplicaSet("web-3", "v3", 0, { revision: "3", sizedFor: [7, 8], age: 2 }),
    ]);

  it.each([
    { how: "a 503 response", after: refusal(503, "ServiceUnavailable", "try again") },
    { how: "no response", after: "lost" as const },
  ])("a ReplicaSet is read from the API server before the next sync scales other ReplicaSets, after $how", async ({ after }) => {
    const harness = await rolling();
    harness.api.script = {
      "patch replicasets": async ({ name }, nth) => {
        if (nth > 1) return undefined;
        if (after !== "lost") await harness.change("replicasets", name, (rs) => ({ ...rs, spec: { ...rs.spec, replicas: 1 } }));
        return after;
      },
    };
    await harness.sync();
    expect(harness.sizes()["web-3"]).toBe(1);
    // The stream has not delivered the ReplicaSet's event yet, and a user scales up by one.
    await harness.change("deployments", "web", (d) => ({ ...d, spec: { ...d.spec, replicas: 8 } }));
    await harness.stream(({ resource }) => resource === "deployments");
    await harness.clock.advance(1_000);
    await harness.ring();
    expect(
      Object.values(harness.sizes())
        .map(Number)
        .reduce((sum, size) => sum + size, 0),
    ).toBe(9);
  });

  it("a ReplicaSet is read from the API server only until the next sync succeeds", async () => {
    const harness = await rolling();
    harness.api.script = { "patch replicasets": (_, nth) => (nth === 1 ? refusal(503, "ServiceUnavailable", "try again") : undefined) };
    await harness.sync();
    await harness.clock.advance(1_000);
    harness.spoken();
    await harness.ring();
    expect(harness.spoken()[0]).toBe("list replicasets");
    await harness.stream();
    await harness.sync();
    expect(harness.spoken()).not.toContain("list replicasets");
  });
});
