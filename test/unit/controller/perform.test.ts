// perform(): conflicts, partial failures, and the write-through of responses.
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { describe, expect, it as base } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { ownerReferenceTo } from "../../../shared/kube/objects/owner-references.ts";
import { RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { compileSelector, type Selector } from "../../../shared/kube/selectors/selector.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import { LeaseEndsError, aggregate } from "../../../shared/controllers/kit/errors.ts";
import type { BuildReplicaSet, ListedWrite, Performed, WriteOf } from "../../../shared/controllers/kit/performed.ts";
import type { Run, SyncPorts } from "../../../shared/controllers/kit/run.ts";
import { Sealed } from "../../../shared/controllers/kit/sealed.ts";
import { createSession, type SyncSession } from "../../../shared/controllers/kit/sync/session.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import type { Owner, Write } from "../../../shared/controllers/kit/writes.ts";
import { KubeApiError, isNotFound } from "../../../shared/kube/client/errors.ts";
import type { Row, WriteThrough } from "../../../shared/store/ports/store.ts";
import { refusal, ScriptedApi, type LiveObject } from "../../support/scripted-api.ts";
import { replicaSet } from "../../support/workloads.ts";

const it = base.extend("scene", async () => await Scene.create());

const digester = createDigester("0123456789abcdef0123456789abcdef");

/** A Deployment `d` with one ReplicaSet `web`, a run of its key, and the recorded write-throughs. */
class Scene {
  readonly api: ScriptedApi;
  readonly saved: WriteThrough[] = [];
  readonly owner: Owner;
  readonly run: Run;
  readonly ports: SyncPorts;
  mayWrite = true;
  readonly #dependents: Row[] = [];
  #session: SyncSession | undefined;

  static async create(): Promise<Scene> {
    const api = await ScriptedApi.create({ clock: createVirtualClock(0) });
    const { spec = {} } = replicaSet();
    const live = await api.put("deployments", { metadata: { name: "d" }, spec });
    await api.put("replicasets", replicaSet());
    return new Scene(api, live);
  }

  private constructor(api: ScriptedApi, live: LiveObject) {
    this.api = api;
    const { uid } = live.metadata;
    this.owner = { resource: "deployments", namespace: "shop", name: "d", uid };
    const object = strip("deployments", live, digester);
    const snapshot = {
      primary: { key: "shop/d", uid, rv: live.metadata.resourceVersion, gone: false, object },
      dependents: this.#dependents,
      orphans: [],
      intents: [],
      failures: 0,
    };
    this.run = { epoch: "e", controller: "deployment", key: "shop/d", token: "t", snapshot, mayWrite: () => this.mayWrite };
    this.ports = {
      store: {
        readIndex: async () => ({ rows: [], primaries: [], counts: [] }),
        readSlices: async () => [],
        correlateEvents: async () => [],
        markSuspect: async () => {},
        registerIntents: async () => "ok",
        writeThrough: async (_, write) => {
          this.saved.push(write);
          return { kind: "ok", bells: [], outcomes: [] };
        },
      },
      reader: this.api,
      gateway: builtInGateway(this.api, "deployment", "act"),
      doorbells: { ring: async () => {} },
      digester,
      registry: { ...CORE_CACHE, affectedKeys: [] },
      clock: createVirtualClock(0),
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    };
  }

  get session(): SyncSession {
    return (this.#session ??= createSession(this.ports, this.run));
  }

  perform(writes: readonly ListedWrite[]): Promise<Performed> {
    return this.session.perform(writes);
  }

  /** Performs one write of any kind except a rollback. */
  async send(write: Write): Promise<Performed> {
    switch (write.kind) {
      case "CreateReplicaSet":
        return this.session.createReplicaSet(write, build);
      case "UpdateStatus":
        return this.session.updateStatus(write);
      case "RollBack":
        throw new Error("rollbacks are not tested here");
      default:
        return this.session.perform([write]);
    }
  }

  /** Adds a ReplicaSet to the snapshot, controlled by `d` unless it is an orphan. */
  see(name: string, uid: string, controller: "d" | "nobody" = "d"): void {
    const ownerReferences =
      controller === "d" ? [ownerReferenceTo(RESOURCES.deployments, { metadata: { name: "d", uid: this.owner.uid } })] : [];
    const { metadata, ...rest } = replicaSet({ name, ownerReferences });
    const seen = { ...rest, metadata: { ...metadata, namespace: "shop", uid, resourceVersion: "1" } };
    this.#dependents.push({ key: `shop/${name}`, uid, rv: "1", gone: false, object: strip("replicasets", seen, digester) });
  }

  get uid(): string {
    return this.api.uid("replicasets", "web");
  }

  get rv(): string {
    return this.api.find("replicasets", "web").metadata.resourceVersion;
  }

  /** The keys written through, in order; deleted ones have the suffix `!`. */
  get cached(): readonly string[] {
    return this.saved.flatMap(({ items, gone }) => [...items.map(({ key }) => key), ...gone.map(({ key }) => `${key}!`)]);
  }

  patch(fields: Partial<WriteOf<"PatchReplicaSet">> = {}): WriteOf<"PatchReplicaSet"> {
    const { name = "web", uid = this.uid } = fields;
    this.see(name, uid);
    return { kind: "PatchReplicaSet", owner: this.owner, name, uid, resourceVersion: this.rv, replicas: 5, ...fields };
  }

  remove(fields: Partial<WriteOf<"DeleteReplicaSet">> = {}): WriteOf<"DeleteReplicaSet"> {
    const { name = "web", uid = this.uid } = fields;
    this.see(name, uid);
    return { kind: "DeleteReplicaSet", owner: this.owner, name, uid, resourceVersion: this.rv, ...fields };
  }

  create(fields: Partial<WriteOf<"CreateReplicaSet">> = {}): WriteOf<"CreateReplicaSet"> {
    const { template } = strip("deployments", this.api.find("deployments", "d"), digester).spec;
    return {
      kind: "CreateReplicaSet",
      owner: this.owner,
      name: "d-5f",
      hash: "5f",
      template: { generation: 1, digest: template.digest },
      replicas: 3,
      annotations: {},
      ...fields,
    };
  }

  status(): WriteOf<"UpdateStatus"> {
    const status = {
      replicas: 1,
      updatedReplicas: 1,
      readyReplicas: 1,
      availableReplicas: 1,
      unavailableReplicas: 0,
      observedGeneration: 1,
    };
    return {
      kind: "UpdateStatus",
      owner: this.owner,
      resourceVersion: this.run.snapshot.primary?.rv ?? "",
      status,
      absent: ["terminatingReplicas", "collisionCount"],
    };
  }
}

const build: BuildReplicaSet = (live, { name, replicas }) =>
  new Sealed(
    {
      metadata: {
        name,
        labels: { app: "web" },
        ownerReferences: [
          {
            apiVersion: "apps/v1",
            kind: "Deployment",
            name: live.metadata.name,
            uid: live.metadata.uid,
            controller: true,
            blockOwnerDeletion: true,
          },
        ],
      },
      spec: { ...replicaSet().spec, replicas },
    },
    "d",
  );

describe("PatchReplicaSet", () => {
  it("sends only the changed keys and returns the stored object", async ({ scene }) => {
    const { rv } = scene;
    const { results, error } = await scene.perform([scene.patch({ annotations: { a: "b" } })]);
    expect(scene.api.calls.at(-1)?.body).toEqual({
      metadata: { uid: scene.uid, resourceVersion: rv, annotations: { a: "b" } },
      spec: { replicas: 5 },
    });
    expect(results).toMatchObject([
      { kind: "stored", resource: "replicasets", object: { spec: { replicas: 5, template: { digest: expect.any(String) } } } },
    ]);
    expect(error).toBeUndefined();
    expect(scene.cached).toEqual(["shop/web"]);
  });

  const table = [
    { name: "a ReplicaSet at an older version", fields: { resourceVersion: "7" }, kind: "conflict", cached: ["shop/web"] },
    { name: "a ReplicaSet with another uid", fields: { uid: "rs-0" }, kind: "conflict", cached: ["shop/web"] },
    { name: "a deleted ReplicaSet", fields: { name: "nobody" }, kind: "gone", cached: ["shop/nobody!"] },
  ];
  it.each(table)(
    "a patch of $name fails, writes the current object through, and skips the remaining writes",
    async ({ fields, kind, cached }) => {
      const scene = await Scene.create();
      const { results, error } = await scene.perform([scene.patch(fields), scene.patch()]);
      expect(results.map((result) => result.kind)).toEqual([kind, "notTried"]);
      expect(error).toBeInstanceOf(KubeApiError);
      expect(scene.cached).toEqual(cached);
    },
  );

  it("reports a failure, not a conflict, when the API server rejects the patch as invalid", async ({ scene }) => {
    scene.api.script = { "patch replicasets": refusal(422, "Invalid", "too big") };
    expect((await scene.perform([scene.patch()])).results).toMatchObject([{ kind: "failed", error: { message: "too big" } }]);
  });

  it("applies each patch to the object that the previous patch returned", async ({ scene }) => {
    const { uid, resourceVersion } = (await scene.api.put("replicasets", replicaSet({ name: "old" }))).metadata;
    const other = scene.patch({ name: "old", uid, resourceVersion, replicas: 0 });
    expect((await scene.perform([scene.patch(), other])).results.map(({ kind }) => kind)).toEqual(["stored", "stored"]);
  });
});

describe("CreateReplicaSet", () => {
  it("builds the body from the live owner, which is read once", async ({ scene }) => {
    const results = [scene.create(), scene.create({ name: "d-6a" })].map((write) => scene.send(write));
    expect((await Promise.all(results)).flatMap((each) => each.results.map(({ kind }) => kind))).toEqual(["stored", "stored"]);
    expect(scene.api.reads).toEqual(["get deployments d"]);
    expect(scene.cached).toEqual(["shop/d-5f", "shop/d-6a"]);
  });

  it("returns the existing object if the name is taken, and writes it through", async ({ scene }) => {
    const { results, error } = await scene.send(scene.create({ name: "web" }));
    expect(results).toMatchObject([
      { kind: "alreadyExists", live: { metadata: { uid: scene.uid }, spec: { template: { digest: expect.any(String) } } } },
    ]);
    expect(error).toBeUndefined();
    expect(scene.cached).toEqual(["shop/web"]);
  });

  it("a create is not sent for an owner that is deleted, replaced, changed or being deleted", async () => {
    const answering =
      (metadata: object) =>
      async ({ api }: Scene) => {
        const live = api.find("deployments", "d");
        api.script = { "get deployments": { answer: { ...live, metadata: { ...live.metadata, ...metadata } } } };
      };
    const replaced = async ({ api }: Scene): Promise<void> => {
      await api.remove("deployments", "d");
      await api.put("deployments", { metadata: { name: "d" }, spec: replicaSet().spec ?? {} });
    };
    const table: { spoil: (scene: Scene) => Promise<unknown>; end?: object }[] = [
      { spoil: ({ api }) => api.remove("deployments", "d"), end: { kind: "done" } },
      { spoil: replaced, end: { kind: "done" } },
      {
        spoil: ({ api }) => api.change("deployments", "d", ({ spec }) => ({ spec: { ...spec, minReadySeconds: 1 } })),
        end: { kind: "again", afterMs: 0 },
      },
      // etcd was restored; the cache learns of it only with the next list
      { spoil: answering({ generation: 2, resourceVersion: "1" }), end: { kind: "again", afterMs: 1_000 } },
      // The API server increments the generation on deletion.
      { spoil: ({ api }) => api.terminate("deployments", "d"), end: { kind: "again", afterMs: 0 } },
      { spoil: answering({ deletionTimestamp: "2026-03-01T10:00:00Z", resourceVersion: "1000" }) },
    ];
    for (const { spoil, end } of table) {
      const scene = await Scene.create();
      const write = scene.create();
      await spoil(scene);
      expect(await scene.send(write)).toEqual({ results: [{ kind: "notTried" }], ...(end && { end }) });
      expect(scene.api.writes).toEqual([]);
    }
  });

  it("uses the owner that was read alongside a list, but reads the owner again before it adopts", async ({ scene }) => {
    const session = createSession(scene.ports, scene.run);
    await session.list("replicasets", "shop", {
      selector: compileSelector({ matchLabels: { app: "web" } }) as Selector,
      foresee: scene.owner,
    });
    expect(await session.createReplicaSet(scene.create({ name: "new" }), build)).toMatchObject({ results: [{ kind: "stored" }] });
    await scene.api.terminate("deployments", "d");
    scene.see("web", scene.uid, "nobody");
    const adoption = { kind: "Adopt", owner: scene.owner, resource: "replicasets", name: "web", uid: scene.uid } as const;
    expect((await session.perform([adoption])).error?.message).toContain("shop/d has just been deleted");
    expect(scene.api.reads).toEqual(["list replicasets ", "get deployments d", "get deployments d"]);
  });

  it("fails the sync if reading the owner fails, and returns an error if the API server rejects the create", async ({ scene }) => {
    scene.api.script = { "get deployments": "never" };
    await expect(scene.send(scene.create())).rejects.toThrow("no response");
    const other = await Scene.create();
    other.api.script = { "create replicasets": refusal(403, "Forbidden", "quota") };
    expect(await other.send(other.create())).toMatchObject({ results: [{ kind: "failed" }], error: { message: "quota" } });
  });
});

describe("DeleteReplicaSet", () => {
  it("skips an object that is deleted or changed, and continues", async ({ scene }) => {
    const { results, error } = await scene.perform([
      scene.remove({ name: "nobody", uid: "n" }),
      scene.remove({ uid: "rs-0" }),
      scene.remove(),
    ]);
    expect(results.map(({ kind }) => kind)).toEqual(["gone", "conflict", "deleted"]);
    expect(error).toBeUndefined();
    expect(scene.cached).toEqual(["shop/nobody!", "shop/web!"]);
  });

  it("keeps an object with finalizers in the cache, with its deletionTimestamp", async ({ scene }) => {
    await scene.api.change("replicasets", "web", ({ metadata }) => ({ metadata: { ...metadata, finalizers: ["example.com/held"] } }));
    await scene.perform([scene.remove()]);
    expect(scene.saved[0]?.items).toMatchObject([{ type: "put", object: { metadata: { deletionTimestamp: expect.any(String) } } }]);
  });
});

describe("UpdateStatus of a Deployment", () => {
  it("a status update is written through with the response", async ({ scene }) => {
    expect((await scene.send(scene.status())).results).toMatchObject([
      { kind: "stored", resource: "deployments", object: { status: { replicas: 1 } } },
    ]);
    expect(scene.saved).toMatchObject([{ ownStatus: true, resource: "deployments" }]);
  });

  it("writes the live object through and fails the sync after a conflict, even if the generation is unchanged", async ({ scene }) => {
    await scene.api.change("deployments", "d", ({ metadata }) => ({ metadata: { ...metadata, labels: { a: "b" } } }));
    expect(await scene.send(scene.status())).toMatchObject({ results: [{ kind: "conflict" }], error: { code: 409 } });
    expect(scene.saved).toMatchObject([{ ownStatus: false, items: [{ key: "shop/d" }] }]);
    expect(scene.api.writes).toEqual(["patch deployments/status"]);
  });

  it("fails the sync on any conflict, even of a webhook, so that the key is requeued with back-off", async ({ scene }) => {
    scene.api.script = { "patch deployments/status": refusal(409, "Conflict", "a webhook says so") };
    const { end, error } = await scene.send(scene.status());
    expect([end, error?.message]).toEqual([undefined, "a webhook says so"]);
  });

  it("ends the sync as done if the Deployment was deleted or replaced, and fails on any other error", async () => {
    const gone = await Scene.create();
    await gone.api.remove("deployments", "d");
    expect((await gone.send(gone.status())).end).toEqual({ kind: "done" });
    const replaced = await Scene.create();
    const status = replaced.status();
    await replaced.api.remove("deployments", "d");
    await replaced.api.put("deployments", { metadata: { name: "d" }, spec: replicaSet().spec ?? {} });
    expect((await replaced.send(status)).end).toEqual({ kind: "done" });
    const refused = await Scene.create();
    refused.api.script = { "*": refusal(403, "Forbidden", "no") };
    expect(await refused.send(refused.status())).toMatchObject({ error: { message: "no" }, results: [{ kind: "failed" }] });
  });
});

describe("perform", () => {
  it("PF4 starts no call after the key's lease has ended", async ({ scene }) => {
    scene.mayWrite = false;
    for (const write of [scene.patch(), scene.remove(), scene.create(), scene.status()])
      await expect(scene.send(write)).rejects.toThrow(LeaseEndsError);
    expect(scene.api.writes).toEqual([]);
  });

  it("adopts ReplicaSets in one write-through, and returns upstream's message when the Deployment is deleted", async () => {
    const claims = ({ owner, uid }: Scene, kind: "Adopt" | "Release"): ListedWrite => ({
      kind,
      owner,
      resource: "replicasets",
      name: "web",
      uid,
    });
    const scene = await Scene.create();
    scene.see("web", scene.uid, "nobody");
    expect((await scene.perform([claims(scene, "Adopt")])).results).toMatchObject([{ kind: "stored", resource: "replicasets" }]);
    expect(scene.saved).toHaveLength(1);
    const gone = await Scene.create();
    gone.see("web", gone.uid);
    await gone.api.remove("deployments", "d");
    const { results, error } = await gone.perform([claims(gone, "Release"), claims(gone, "Adopt")]);
    expect(results.map(({ kind }) => kind)).toEqual(["stored", "failed"]);
    expect(error?.message).toBe(
      `can't adopt ReplicaSet shop/web (${gone.uid}): can't recheck DeletionTimestamp: deployments.apps "d" not found`,
    );
  });
});

describe("errors", () => {
  it("an aggregate of errors is printed as upstream prints it", () => {
    const [a, b] = [new Error("a"), new Error("b")];
    expect([aggregate([]), aggregate([a])?.message, aggregate([a, b])?.message, aggregate([a, new Error("a")])?.message]).toEqual([
      undefined,
      "a",
      "[a, b]",
      "a",
    ]);
  });

  it("errors are compared by code, never by message", () => expect(isNotFound(refusal(404, "NotFound", ""))).toBe(true));
});

describe("PF5 perform in shadow mode", () => {
  it("logs the writes that it would have sent, unless a trace records them", async ({ scene }) => {
    const said: unknown[] = [];
    const log = { ...scene.ports.log, info: (message: string, fields?: object) => void said.push({ message, ...fields }) };
    const ports = { ...scene.ports, log, gateway: builtInGateway(scene.api, "deployment", "shadow") };
    const writes = [scene.patch(), scene.remove()];
    await createSession(ports, scene.run).perform(writes);
    await createSession({ ...ports, trace: () => undefined }, scene.run).perform(writes);
    expect(said).toEqual([
      {
        message: "write not sent: shadow mode",
        controller: "deployment",
        key: "shop/d",
        writes: "PatchReplicaSet, DeleteReplicaSet",
      },
    ]);
  });
});
