/**
 * The counting laws of design.md on a real Redis, with the in-memory API server over HTTP. The cost of a sync is counted
 * in commands and bytes on the wire, so the results do not depend on the machine's speed.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { startEmbedded } from "../../cli/dev/embedded.ts";
import { objectKey } from "../../shared/kube/objects/resources.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";
import { silentLog } from "../support/silent-log.ts";
import { startCountedSync, type Cost, type CountedSync } from "../harness/sync/counted-sync.ts";
import { rawClientIn } from "../support/raw-client.ts";

const REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const PODS = "/api/v1/namespaces/default/pods";
const STRATEGIC = "application/strategic-merge-patch+json";
const MERGE = "application/merge-patch+json";
const WEB = objectKey("default", "web");

/** The two verbs that every run calls. */
const TAKE_AND_DONE = ["take", "done"];
const READ_BYTES_FREE = 4 * 1024;
const READ_BYTES_PER_POD = 450;
const MEMORY_BYTES_PER_POD = 750;

const reason = ensureRedisServer();

describe.skipIf(reason !== undefined)(`counting laws${reason === undefined ? "" : ` (${reason})`}`, () => {
  let redis: RedisServer;
  let harness: CountedSync;
  beforeAll(async () => void (redis = await startRedis()));
  afterAll(() => redis.stop());
  beforeEach(async () => void (harness = await startCountedSync(redis.url)));
  afterEach(() => harness.close());

  it("a sync that writes nothing needs 2 commands", async () => {
    await replicaSet(20);
    await labelPod(0, { touched: "yes" });
    const cost = await syncRS();
    expect(cost.verbs).toEqual(TAKE_AND_DONE);
    expect(cost.commands).toBe(2);
    expect(cost.requests).toEqual([]);
  });

  it("a final status write ends the run in the same command that caches its response", async () => {
    await replicaSet(20);
    await harness.person.request("PATCH", `${PODS}/${await podName(0)}/status`, ready(), STRATEGIC);
    await harness.stream();
    const cost = await syncRS();
    expect(cost.requests).toEqual(["patch replicasets/status"]);
    expect(cost.verbs).toEqual(["take", "writeThrough"]);
    expect(cost.commands).toBe(2);
  });

  it("creates need one registerIntents and one write-through per slow-start batch, whatever its size", async () => {
    await create("web", 500);
    const cost = await syncRS();
    // The writes: batches of 1, 2, 4, …, 128, 245 pods, then the status, and one correlateEvents for 500 Events.
    expect(cost.verbs).toEqual([
      "take",
      "registerIntents",
      ...Array<string>(9).fill("writeThrough"),
      "writeThrough",
      "correlateEvents",
      "done",
    ]);
    expect(cost.commands).toBe(cost.verbs.length);
    expect(cost.requests.filter((request) => request === "create pods")).toHaveLength(500);
    expect(cost.requests.filter((request) => request !== "create pods")).toEqual([
      "list pods", // pods are listed once for a new standalone ReplicaSet
      "get replicasets",
      "patch replicasets/status",
    ]);
  });

  it("live lists: none for a Deployment's rollout or a drained node, one for a bare ReplicaSet, one per acting owner after a change of leader", async () => {
    const lists: string[] = [];
    harness.server.onRequest(({ verb, resource, userAgent }) => {
      if (verb === "list" && resource === "pods" && userAgent.startsWith("deltaloop/")) lists.push("pods");
    });
    const play = async (): Promise<number> => {
      await harness.stream();
      await harness.settle();
      return lists.splice(0).length;
    };
    await harness.person.request("POST", DEPLOYMENTS, deployment("web", 1));
    expect(await play()).toBe(0);
    for (const replicas of [5, 2, 6]) {
      await scale("web", replicas, DEPLOYMENTS);
      expect(await play()).toBe(0);
    }
    for (const image of ["web:2", "web:3"]) {
      await newImage("web", image);
      for (let step = 0; step < 15; step++) {
        for (const { metadata } of await items(PODS))
          await harness.person.request("PATCH", `${PODS}/${metadata.name}/status`, ready(), STRATEGIC);
        expect(await play()).toBe(0);
      }
    }
    const sizes = (await items(REPLICA_SETS)).map(({ spec }) => spec?.replicas ?? 0).toSorted((a, b) => a - b);
    expect(sizes).toEqual([0, 0, 6]);

    await create("bare", 3);
    expect(await play()).toBe(1);
    await scale("bare", 5);
    expect(await play()).toBe(0);

    await harness.pass(5_000); // exceeds the minimum time between two lists for an owner
    await harness.relist("pods"); // under a greater fence, as a new leader does
    await scale("bare", 4);
    expect(await play()).toBe(1);
    await scale("web", 8, DEPLOYMENTS);
    expect(await play()).toBe(1);
    await scale("web", 9, DEPLOYMENTS);
    await scale("bare", 5);
    expect(await play()).toBe(0);

    for (const { metadata } of (await items(PODS)).slice(0, 7)) await harness.person.request("DELETE", `${PODS}/${metadata.name}`);
    expect(await play()).toBe(0);
    expect((await items(PODS)).length).toBe(14);
  });

  it("deletes of all pods need one registerIntents and one write-through", async () => {
    await replicaSet(100);
    await scale("web", 0);
    const cost = await syncRS();
    expect(cost.verbs).toEqual(["take", "registerIntents", "writeThrough", "writeThrough", "correlateEvents", "done"]);
    expect(cost.commands).toBe(cost.verbs.length);
    expect(cost.requests.filter((request) => request === "delete pods")).toHaveLength(100);
    expect(readsOf(cost)).toEqual(["get replicasets"]);
  });

  it("deletes of pods with stale rows need one more GET and DELETE each, and no further command", async () => {
    await replicaSet(20);
    await scale("web", 0);
    for (const { metadata } of await items(PODS))
      await harness.person.request("PATCH", `${PODS}/${metadata.name}`, { metadata: { labels: { touched: "yes" } } }, MERGE);
    const cost = await syncRS();
    expect(cost.verbs).toEqual(["take", "registerIntents", "writeThrough", "writeThrough", "correlateEvents", "done"]);
    expect(cost.commands).toBe(cost.verbs.length);
    expect(cost.requests.filter((request) => request === "delete pods")).toHaveLength(40);
    expect(readsOf(cost)).toEqual(["get replicasets", ...Array<string>(20).fill("get pods")]);
  });

  it("deletes of some pods of an owned ReplicaSet need 2 more reads for its sibling ReplicaSets", async () => {
    await harness.person.request("POST", DEPLOYMENTS, deployment("web", 20));
    await harness.stream();
    await harness.settle();
    await newImage("web", "web:2");
    await harness.stream();
    await harness.settle();
    const names = (await items(REPLICA_SETS)).toSorted((a, b) => Number(b.spec?.replicas) - Number(a.spec?.replicas));
    const old = names[0]?.metadata.name ?? "";
    expect(names).toHaveLength(2);
    await scale(old, 3);
    await harness.stream();
    const cost = await harness.sync("replicaset", objectKey("default", old));
    expect(cost.verbs).toEqual([
      "take",
      "readSlices",
      "readSlices",
      "registerIntents",
      "writeThrough",
      "writeThrough",
      "correlateEvents",
      "done",
    ]);
    expect(readsOf(cost)).toEqual(["get replicasets"]);
    expect(cost.commands).toBe(cost.verbs.length);
  });

  it("adoptions and releases of any number of pods need one write-through", async () => {
    for (let i = 0; i < 20; i++) await harness.person.request("POST", PODS, bare(`bare-${i}`));
    await create("web", 20);
    const cost = await syncRS();
    expect(cost.requests.filter((request) => request === "patch pods")).toHaveLength(20);
    expect(readsOf(cost)).toEqual(["get replicasets"]);
    expect(cost.verbs).toEqual(["take", "writeThrough", "writeThrough"]);
    expect(cost.commands).toBe(cost.verbs.length);
  });

  it("a Deployment needs one write-through per write", async () => {
    await harness.person.request("POST", DEPLOYMENTS, deployment("web", 10));
    await harness.stream();
    const created = await harness.sync("deployment", WEB);
    expect(writesOf(created)).toContain("create replicasets");
    expect(readsOf(created)).toEqual(["list replicasets", "get deployments"]);
    expect(created.verbs).toEqual(["take", ...writesOf(created).map(() => "writeThrough"), "correlateEvents", "done"]);
    expect(created.commands).toBe(created.verbs.length);
    await harness.settle();
    await scale("web", 15, DEPLOYMENTS);
    await harness.stream();
    const scaled = await harness.sync("deployment", WEB);
    expect(writesOf(scaled)).toContain("patch replicasets");
    expect(readsOf(scaled)).toEqual([]);
    expect(scaled.verbs).toEqual(["take", ...writesOf(scaled).map(() => "writeThrough"), "correlateEvents", "done"]);
    expect(scaled.commands).toBe(scaled.verbs.length);
  });

  it("copying a Deployment's annotations to its ReplicaSet needs one more live read; scaling the ReplicaSet needs none", async () => {
    await harness.person.request("POST", DEPLOYMENTS, deployment("web", 1));
    await harness.stream();
    await harness.settle();
    const annotations = { "kubernetes.io/change-cause": "image" };
    await harness.person.request("PATCH", `${DEPLOYMENTS}/web`, { metadata: { annotations } }, MERGE);
    await harness.stream();
    const copied = await harness.sync("deployment", WEB);
    expect(copied.requests.slice(0, 2)).toEqual(["get deployments", "patch replicasets"]);
    expect(copied.requests.filter((request) => request.startsWith("get"))).toHaveLength(1);
    expect(copied.verbs).toEqual(["take", ...writesOf(copied).map(() => "writeThrough")]);
    await scale("web", 2, DEPLOYMENTS);
    await harness.stream();
    const scaled = await harness.sync("deployment", WEB);
    expect(scaled.requests).toContain("patch replicasets");
    expect(scaled.requests.filter((request) => request.startsWith("get"))).toEqual([]);
  });

  it("a snapshot reads at most 4 KiB, the primaries, and 450 bytes for each own pod and orphan", async () => {
    for (let i = 0; i < 50; i++) await harness.person.request("POST", PODS, bare(`stray-${i}`, "other"));
    await replicaSet(200);
    await labelPod(0, { touched: "yes" });
    const cost = await syncRS();
    expect(cost.verbs).toEqual(TAKE_AND_DONE);
    const primary = JSON.stringify((await items(REPLICA_SETS))[0]).length;
    expect(cost.bytesRead).toBeLessThanOrEqual(READ_BYTES_FREE + primary + READ_BYTES_PER_POD * 250);
    expect(cost.bytesRead).toBeGreaterThan(200 * 100); // shows that replies are counted
  });

  it("Redis stores at most 750 bytes per pod in total", async () => {
    const before = await harness.memory();
    const pods = 2_000;
    for (let i = 0; i < pods; i++)
      await harness.person.request("POST", PODS, bare(`web-frontend-7f8fb6d5c9-${i.toString(36).padStart(5, "0")}`));
    await harness.stream();
    expect(((await harness.memory()) - before) / pods).toBeLessThanOrEqual(MEMORY_BYTES_PER_POD);
  });

  async function create(name: string, replicas: number): Promise<void> {
    await harness.person.request("POST", REPLICA_SETS, {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name },
      spec: { replicas, selector: { matchLabels: { app: name } }, template: template(name) },
    });
    await harness.stream();
  }

  async function newImage(name: string, image: string): Promise<void> {
    const spec = { template: { spec: { containers: [{ name: "main", image }] } } };
    await harness.person.request("PATCH", `${DEPLOYMENTS}/${name}`, { spec }, STRATEGIC);
  }

  /** Creates a ReplicaSet with all its pods and its status. */
  async function replicaSet(replicas: number): Promise<void> {
    await create("web", replicas);
    await harness.settle();
    expect(await items(PODS)).toSatisfy(
      (pods: readonly Item[]) => pods.filter(({ metadata }) => metadata.labels?.["app"] === "web").length === replicas,
    );
  }

  function writesOf({ requests }: Cost): readonly string[] {
    return requests.filter((request) => !isRead(request));
  }

  /** Returns the live reads in order. */
  function readsOf({ requests }: Cost): readonly string[] {
    return requests.filter(isRead);
  }

  function isRead(request: string): boolean {
    return request.startsWith("get ") || request.startsWith("list ");
  }

  function syncRS(): Promise<Cost> {
    return harness.sync("replicaset", WEB);
  }

  async function items(path: string): Promise<readonly Item[]> {
    return (await harness.person.list<Item>(path)).items;
  }

  async function podName(index: number): Promise<string> {
    return (await items(PODS)).filter(({ metadata }) => metadata.labels?.["app"] === "web")[index]?.metadata.name ?? "";
  }

  /** Changes labels that enqueue the owner immediately and do not affect its decision. */
  async function labelPod(index: number, labels: Readonly<Record<string, string>>): Promise<void> {
    await harness.person.request("PATCH", `${PODS}/${await podName(index)}`, { metadata: { labels } }, MERGE);
    await harness.stream();
  }

  async function scale(name: string, replicas: number, path = REPLICA_SETS): Promise<void> {
    await harness.person.request("PATCH", `${path}/${name}/scale`, { spec: { replicas } }, MERGE);
    await harness.stream();
  }
});

describe.skipIf(reason !== undefined)("a ReplicaSet of 1,000, from its POST until its pods exist (none is Ready)", () => {
  it("reads at most 5 Redis entries per pod, and writes the status at most 10 times", async () => {
    const wanted = 1_000;
    let entries = 0;
    const embedded = await startEmbedded({
      log: silentLog,
      nodes: 0,
      observe: (store) => countingEntries(store, (count) => (entries += count)),
    });
    try {
      expect(embedded.storeName).toBe("redis-server");
      await embedded.ready();
      let created = 0;
      let statusWrites = 0;
      const all = new Promise<void>((resolve) => {
        embedded.server.onRequest(({ verb, resource, subresource, status }) => {
          if (verb === "create" && resource === "pods" && status === 201 && ++created === wanted) resolve();
          if (created < wanted && resource === "replicasets" && subresource === "status") statusWrites++;
        });
      });
      const person = rawClientIn(embedded.server);
      entries = 0;
      await person.request("POST", REPLICA_SETS, {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        metadata: { name: "web" },
        spec: { replicas: wanted, selector: { matchLabels: { app: "web" } }, template: template("web") },
      });
      await all;
      expect({ entries: entries <= 5 * wanted, statusWrites: statusWrites <= 10, seen: { entries, statusWrites } }).toMatchObject({
        entries: true,
        statusWrites: true,
      });
    } finally {
      await embedded.stop();
    }
  });
});

/** Counts the slice entries that the Store returns to syncs and the applier. */
function countingEntries(store: Store, add: (count: number) => void): Store {
  return {
    ...store,
    async take(run, known) {
      const result = await store.take(run, known);
      if (result.kind === "ok") add(result.snapshot.dependents.length + result.snapshot.orphans.length);
      return result;
    },
    async readSlices(slices) {
      const rows = await store.readSlices(slices);
      add(rows.reduce((sum, slice) => sum + slice.length, 0));
      return rows;
    },
    async readIndex(request) {
      const view = await store.readIndex(request);
      add(view.rows.length + view.primaries.reduce((sum, { rows }) => sum + rows.length, 0));
      return view;
    },
  };
}

interface Item {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec?: { readonly replicas?: number };
}

function template(app: string): object {
  return { metadata: { labels: { app } }, spec: { containers: [{ name: "main", image: `${app}:1` }] } };
}

function deployment(name: string, replicas: number): object {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name },
    spec: { replicas, selector: { matchLabels: { app: name } }, template: template(name) },
  };
}

function bare(name: string, app = "web"): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, labels: { app } }, spec: { containers: [{ name: "main", image: "web:1" }] } };
}

function ready(): object {
  return { status: { phase: "Running", conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-03-01T10:00:00Z" }] } };
}
