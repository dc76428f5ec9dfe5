// Preparation of changes: rows to read, effects, counts and intents.
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { describe, expect, it } from "vitest";
import type { Cached, CachedPod } from "../../../shared/kube/objects/cached.ts";
import { ownerOfCached } from "../../../shared/kube/objects/owner-id.ts";
import type { AffectedKeys } from "../../../shared/controllers/cache/affected-keys.ts";
import { prepareChanges, type Change } from "../../../shared/controllers/cache/prepare.ts";
import type { CachedResource, View } from "../../../shared/kube/objects/resources.ts";
import type { IndexRequest, IndexView, Row } from "../../../shared/store/ports/store.ts";
import { asOwner, cachedDeployment, cachedPod, cachedReplicaSet, keyOf, ownedBy } from "../../support/builders.ts";

/** A Store with these objects that records its calls. */
function storeOf(...objects: readonly (readonly [CachedResource, Cached])[]) {
  const asked: IndexRequest[] = [];
  const rows = objects.map(([resource, object]) => ({ resource, row: rowOf(object) }));
  const readIndex = async (request: IndexRequest): Promise<IndexView> => {
    asked.push(request);
    const counts = [...(request.counts ?? []), ...(request.primaries ?? [])];
    const found = (request.rows ?? []).flatMap((each) =>
      rows
        .filter(({ resource, row }) => each.resource === resource && each.key === row.key)
        .map((place) => ({ ...place, current: each.put !== undefined && Number(place.row.rv) >= Number(each.put) })),
    );
    return {
      rows: found.filter(({ current }) => !current),
      current: found.filter(({ current }) => current),
      primaries: (request.primaries ?? []).map((each) => ({
        ...each,
        rows: rows.filter(({ resource }) => resource === each.resource).map(({ row }) => row),
      })),
      counts: counts.map(({ resource, namespace }) => ({ resource, namespace, count: 7 })),
    };
  };
  return { readIndex, asked };
}

function rowOf(object: Cached): Row {
  const { uid, resourceVersion: rv } = "metadata" in object ? object.metadata : object;
  const owner = ownerOfCached("metadata" in object ? "replicasets" : "pods", object);
  return { key: keyOf(object), uid, rv, gone: false, object, ...(owner !== undefined && { owner }) };
}

function put(object: Cached): Change {
  const { uid, resourceVersion: rv } = "metadata" in object ? object.metadata : object;
  return { type: "put", key: keyOf(object), uid, rv, object };
}

/** The pods of the default ReplicaSet are owned by it. */
const WEB = asOwner("replicaset", cachedReplicaSet());

const none: AffectedKeys = () => [];

/** Live reads are not expected here. */
const live = (): Promise<never> => Promise.reject(new Error("read live"));
const prepare = (
  store: Parameters<typeof prepareChanges>[0],
  affectedKeys: readonly AffectedKeys[],
  resource: CachedResource,
  changes: readonly Change[],
  known?: ReadonlyMap<string, Row | undefined>,
) => prepareChanges(store, { ...CORE_CACHE, affectedKeys }, resource, changes, { live, ...(known && { known }) });

describe("prepareChanges", () => {
  it("records for each change the row that it read, or that there was none, as the expected state", async () => {
    const [old, young] = [
      cachedPod({ name: "a", resourceVersion: "1", owner: ownedBy("ReplicaSet", cachedReplicaSet()) }),
      cachedPod({ name: "b" }),
    ];
    const { items } = await prepare(storeOf(["pods", old]), [none], "pods", [put({ ...old, resourceVersion: "2" }), put(young)]);
    expect(items).toMatchObject([
      { key: "shop/a", rv: "2", owner: WEB, expected: { rv: "1", uid: "uid-a", owner: WEB } },
      { key: "shop/b", type: "put" },
    ]);
    expect(items[1]).not.toHaveProperty("expected");
  });

  it("does not read rows that the caller supplies, even if a row does not exist", async () => {
    const store = storeOf();
    const object = cachedPod({ name: "a" });
    const { items } = await prepare(
      store,
      [none],
      "pods",
      [put(object)],
      new Map([["shop/a", rowOf({ ...object, resourceVersion: "0" })]]),
    );
    expect(items[0]?.expected?.rv).toBe("0");
    await prepare(store, [none], "pods", [put(object)], new Map([["shop/a", undefined]]));
    expect(store.asked).toEqual([]);
  });

  it("reads the rows that decisions request, with their namespaces' object counts, and runs the decisions again until none is missing", async () => {
    const d = cachedDeployment({ name: "d" });
    const rs = cachedReplicaSet({ name: "rs", owner: ownedBy("Deployment", d) });
    const store = storeOf(["replicasets", rs], ["deployments", d]);
    const seen: string[] = [];
    const table: AffectedKeys = (delta, lookups) => {
      if (delta.resource !== "pods") return [];
      const one = lookups.get("replicasets", "shop/rs");
      const two = one && lookups.get("deployments", "shop/d");
      const all = lookups.primaries("replicasets", "shop");
      seen.push(`${one !== undefined} ${two !== undefined} ${all.length}`);
      return two ? [{ controller: "deployment", key: "shop/d", uid: d.metadata.uid, urgency: "act" }] : [];
    };
    const { items, counts } = await prepare(store, [table], "pods", [put(cachedPod())]);
    expect(seen).toEqual(["false false 0", "true false 1", "true true 1"]);
    expect(items[0]?.effects).toMatchObject([{ key: "shop/d" }]);
    expect(counts).toEqual([
      { resource: "replicasets", namespace: "shop", count: 7 },
      { resource: "deployments", namespace: "shop", count: 7 },
    ]);
    expect(store.asked).toHaveLength(3);
  });

  it("[informer A4] [informer T79] enqueues nothing for a put that is not newer than the row, and records the row as the expected state", async () => {
    const rs = cachedReplicaSet();
    const cached = cachedPod({ name: "a", resourceVersion: "5", owner: ownedBy("ReplicaSet", rs) });
    const store = storeOf(["pods", cached]);
    const asked: string[] = [];
    const table: AffectedKeys = ({ new: after }) => {
      if (after && "name" in after) asked.push(`${after.name} ${after.resourceVersion}`);
      return [{ controller: "replicaset", key: "shop/web", uid: rs.metadata.uid, urgency: "act" }];
    };
    for (const resourceVersion of ["4", "5"]) {
      const { items } = await prepare(store, [table], "pods", [put({ ...cached, resourceVersion })]);
      expect(items).toMatchObject([
        {
          rv: resourceVersion,
          expected: { rv: "5", uid: "uid-a", owner: asOwner("replicaset", rs) },
          effects: [],
          counted: false,
          lowers: [],
        },
      ]);
    }
    expect(asked).toEqual([]);
    const { items } = await prepare(store, [table], "pods", [put({ ...cached, resourceVersion: "6" })]);
    expect(asked).toEqual(["a 6"]);
    expect(items[0]?.effects).toHaveLength(1);
  });

  it("passes a row's cached object to a decision if the put of that row in the same call is not newer", async () => {
    const [older, newer] = [
      cachedReplicaSet({ name: "older", resourceVersion: "1" }),
      cachedReplicaSet({ name: "newer", resourceVersion: "9" }),
    ];
    const store = storeOf(["replicasets", older], ["replicasets", newer]);
    let seen: Cached | undefined;
    const table: AffectedKeys = (_, lookups) => {
      seen = lookups.get("replicasets", "shop/newer");
      return [];
    };
    await prepare(store, [table], "replicasets", [put(newer), put(cachedReplicaSet({ name: "older", resourceVersion: "2" }))]);
    expect(seen).toEqual(newer);
  });

  it("fails when a decision never stops requesting rows", async () => {
    let asked = 0;
    const greedy: AffectedKeys = (_, lookups) => {
      lookups.get("replicasets", `shop/${asked++}`);
      return [];
    };
    await expect(prepare(storeOf(), [greedy], "pods", [put(cachedPod())])).rejects.toThrow(
      "the event handlers of pods requested more than 5 rounds of look-ups",
    );
  });

  it("[informer A10] [informer T36] passes a replaced object as a delete and an add, and a changed one as one change", async () => {
    const pairs: string[] = [];
    const table: AffectedKeys = (delta) => {
      const uid = (object: Cached<View> | undefined): string => (object === undefined ? "-" : (object as CachedPod).uid);
      pairs.push(`${uid(delta.old)} > ${uid(delta.new)}`);
      return [];
    };
    const store = storeOf(["pods", cachedPod({ uid: "one" })]);
    await prepare(store, [table], "pods", [put(cachedPod({ uid: "two", resourceVersion: "2" }))]);
    await prepare(store, [table], "pods", [put(cachedPod({ uid: "one", resourceVersion: "2" }))]);
    expect(pairs).toEqual(["one > -", "- > two", "one > one"]);
  });

  it("[informer A9] computes the affected keys of a delete from the cached object, or from the message if nothing is cached", async () => {
    const labels: (string | undefined)[] = [];
    const table: AffectedKeys = ({ resource, old }) => {
      if (resource === "pods") labels.push(old?.labels?.["from"]);
      return [];
    };
    const remove: Change = {
      type: "delete",
      key: "shop/web-1",
      uid: "uid-web-1",
      rv: "9",
      object: cachedPod({ labels: { from: "message" } }),
    };
    await prepare(storeOf(["pods", cachedPod({ labels: { from: "cache" } })]), [table], "pods", [remove]);
    await prepare(storeOf(), [table], "pods", [remove]);
    await prepare(storeOf(), [table], "pods", [{ ...remove, object: undefined }]);
    expect(labels).toEqual(["cache", "message", undefined]);
  });

  it("[informer T24] a live read without a result enqueues the keys of a delete, fulfils the delete intent, and leaves counts unchanged", async () => {
    const pod = cachedPod({ owner: ownedBy("ReplicaSet", cachedReplicaSet()) });
    const table: AffectedKeys = ({ resource, old, new: after }) =>
      resource === "pods" && old?.owner && !after
        ? [{ controller: "replicaset", key: `shop/${old.owner.name}`, uid: old.owner.uid, urgency: "act" }]
        : [];
    const gone: Change = { type: "gone", key: "shop/web-1", uid: pod.uid, rv: "9", object: undefined };
    const { items } = await prepare(storeOf(["pods", pod]), [table], "pods", [gone]);
    expect(items).toMatchObject([
      {
        type: "gone",
        counted: false,
        lowers: [{ owner: WEB, op: "d:uid-web-1" }],
        effects: [{ key: "shop/web" }],
        expected: { rv: "1" },
      },
    ]);
    const rs = cachedReplicaSet();
    const primary = await prepare(storeOf(["replicasets", rs]), [none], "replicasets", [
      { ...gone, key: "shop/web", uid: rs.metadata.uid },
    ]);
    expect(primary.items[0]).toMatchObject({ counted: false });
  });

  const rs = cachedReplicaSet();
  const owned = cachedPod({ owner: ownedBy("ReplicaSet", rs) });
  const dying = { ...owned, deletionTimestamp: "2026-03-01T10:00:00Z" };
  const second = cachedReplicaSet({ name: "second" });
  const names = new Map([
    [WEB, "uid-rs-web"],
    [asOwner("replicaset", second), "uid-rs-second"],
  ]);
  it.each([
    { name: "an owned pod fulfils its create", before: undefined, after: owned, want: ["uid-rs-web c:web-1"] },
    { name: "an orphan fulfils nothing", before: undefined, after: cachedPod(), want: [] },
    {
      name: "a terminating pod fulfils its delete too",
      before: owned,
      after: dying,
      want: ["uid-rs-web c:web-1", "uid-rs-web d:uid-web-1", "uid-rs-web t:left"],
    },
    {
      name: "a deleted pod fulfils its delete, under its former owner",
      before: owned,
      after: undefined,
      want: ["uid-rs-web d:uid-web-1", "uid-rs-web t:left"],
    },
    {
      name: "a terminating pod that is removed fulfils only its delete",
      before: dying,
      after: undefined,
      want: ["uid-rs-web d:uid-web-1"],
    },
    {
      name: "a replaced pod fulfils the old one's delete and the new one's create",
      before: owned,
      after: { ...owned, uid: "again", owner: ownedBy("ReplicaSet", second) },
      want: ["uid-rs-second c:web-1", "uid-rs-web d:uid-web-1", "uid-rs-web t:left"],
    },
    { name: "a released pod fulfils nothing, because it still exists", before: owned, after: cachedPod(), want: [] },
  ])("fulfilled intents: $name", async ({ before, after, want }) => {
    const change: Change = after
      ? put({ ...after, resourceVersion: "2" })
      : { type: "delete", key: "shop/web-1", uid: owned.uid, rv: "2", object: undefined };
    const { items } = await prepare(storeOf(...(before ? [["pods", before] as const] : [])), [none], "pods", [change]);
    expect(items[0]?.lowers.map(({ owner, op }) => `${names.get(owner)} ${op}`)).toEqual(want);
  });

  const resized = cachedReplicaSet({ replicas: 9, resourceVersion: "2" });
  it.each([
    { name: "appears", before: undefined, after: rs, want: true },
    { name: "disappears", before: rs, after: undefined, want: true },
    { name: "is replaced", before: rs, after: cachedReplicaSet({ uid: "other" }), want: true },
    { name: "gets another selector", before: rs, after: cachedReplicaSet({ selector: { app: "else" } }), want: true },
    { name: "gets a controller", before: rs, after: cachedReplicaSet({ owner: ownedBy("Deployment", cachedDeployment()) }), want: true },
    { name: "is resized", before: rs, after: resized, want: false },
  ])("[informer T44] changes the namespace's count when a primary $name: $want", async ({ before, after, want }) => {
    const change: Change = after
      ? { ...put(after), rv: "999" }
      : { type: "delete", key: "shop/web", uid: rs.metadata.uid, rv: "2", object: undefined };
    const { items } = await prepare(storeOf(...(before ? [["replicasets", before] as const] : [])), [none], "replicasets", [change]);
    expect(items[0]?.counted).toBe(want);
  });

  it("does not count pods", async () => {
    const { items } = await prepare(storeOf(), [none], "pods", [put(cachedPod())]);
    expect(items[0]?.counted).toBe(false);
  });
});
