// The audit: comparison of rows, index entries and a list of metadata.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { ownerOfCached } from "../../../shared/kube/objects/owner-id.ts";
import { auditResource, compareLane, listedMeta } from "../../../shared/controllers/cache/watcher/audit.ts";
import type { AuditPorts, Difference, LaneView, ListedMeta } from "../../../shared/controllers/cache/watcher/audit.ts";
import type { ListQuery } from "../../../shared/kube/client/kube.ts";
import type { CachedEntry, Forged } from "../../../shared/store/ports/store.ts";
import { cachedPod, cachedReplicaSet, cachedReplicationController, keyOf, ownedBy } from "../../support/builders.ts";

const OWNER = ownedBy("ReplicaSet", cachedReplicaSet());
const KEY = "shop/a";
const STANDS: Forged = { resource: "pods", key: KEY, where: "entry", slice: "s", text: "t" };

interface Pod {
  readonly rv: string;
  readonly uid?: string;
  readonly labels?: Record<string, string>;
  readonly owned?: boolean;
  readonly deletionTimestamp?: string;
}

function listed({ rv, uid = "u1", labels = { app: "web" }, owned = true, deletionTimestamp }: Pod): ListedMeta {
  const reference = { apiVersion: "apps/v1", controller: true, blockOwnerDeletion: true, ...OWNER };
  const metadata = { namespace: "shop", name: "a", uid, resourceVersion: rv, labels, deletionTimestamp };
  const item = listedMeta("pods", { metadata: { ...metadata, ownerReferences: owned ? [reference] : [] } });
  if (!item) throw new Error("no live read configured");
  return item;
}

/** A row with its index entry. With `entry` false, the entry fails verification. */
function cached({ rv, uid = "u1", labels = { app: "web" }, owned = true, deletionTimestamp }: Pod, isBelieved = true): CachedEntry {
  const object = cachedPod({
    name: "a",
    uid,
    resourceVersion: rv,
    labels,
    ...(owned && { owner: OWNER }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  });
  const owner = ownerOfCached("pods", object);
  return {
    key: keyOf(object),
    ...(isBelieved && { row: { key: KEY, uid, rv, gone: false, object, ...(owner !== undefined && { owner }) } }),
    stands: STANDS,
  };
}

function view(watermark: string, pod?: Pod, isBelieved = true): LaneView {
  if (!pod) return { watermark, rows: new Map(), entries: new Map() };
  const { rv, uid = "u1" } = pod;
  return { watermark, rows: new Map([[KEY, { uid, rv }]]), entries: new Map([[KEY, cached(pod, isBelieved)]]) };
}

describe("a lane compared with its list", () => {
  const LIST = "100";
  it.each<{ name: string; object?: Pod; lane: LaneView; want?: Difference["kind"] }>([
    { name: "row and object are the same", object: { rv: "50" }, lane: view(LIST, { rv: "50" }) },
    { name: "neither a row nor an object", lane: view(LIST) },
    { name: "an object without a row", object: { rv: "50" }, lane: view("50"), want: "missing" },
    { name: "an object without a row whose event has not arrived yet", object: { rv: "50" }, lane: view("49") },
    { name: "a row without an object", lane: view(LIST, { rv: "50" }), want: "surplus" },
    { name: "a row without an object whose delete event may not have arrived yet", lane: view("99", { rv: "50" }) },
    { name: "a row newer than the list", lane: view("120", { rv: "101" }) },
    { name: "an older row", object: { rv: "50" }, lane: view("50", { rv: "40" }), want: "older" },
    { name: "an older row whose event has not arrived yet", object: { rv: "50" }, lane: view("49", { rv: "40" }) },
    { name: "a newer row", object: { rv: "50" }, lane: view("120", { rv: "110" }) },
    { name: "a newer row that the list lacks", object: { rv: "50" }, lane: view("120", { rv: "60" }), want: "ahead" },
    { name: "versions of different length are compared as integers", object: { rv: "9" }, lane: view(LIST, { rv: "10" }), want: "ahead" },
    { name: "another uid", object: { rv: "50", uid: "u2" }, lane: view(LIST, { rv: "50" }), want: "other" },
    { name: "other labels", object: { rv: "50", labels: { app: "api" } }, lane: view(LIST, { rv: "50" }), want: "other" },
    {
      name: "labels in another order",
      object: { rv: "50", labels: { b: "2", a: "1" } },
      lane: view(LIST, { rv: "50", labels: { a: "1", b: "2" } }),
    },
    { name: "another owner", object: { rv: "50", owned: false }, lane: view(LIST, { rv: "50" }), want: "other" },
    {
      name: "a deletionTimestamp that the row lacks",
      object: { rv: "50", deletionTimestamp: "2026-03-01T10:00:00Z" },
      lane: view(LIST, { rv: "50" }),
      want: "other",
    },
    { name: "an entry with an invalid MAC", object: { rv: "50" }, lane: view(LIST, { rv: "50" }, false), want: "unbelieved" },
    { name: "an entry of a deleted object with an invalid MAC", lane: view("1", { rv: "50" }, false), want: "unbelieved" },
    {
      name: "a row with an invalid MAC",
      object: { rv: "50" },
      lane: { watermark: LIST, rows: new Map(), entries: new Map([[KEY, { key: KEY, stands: STANDS }]]) },
      want: "unbelieved",
    },
  ])("[informer T92] the reported difference is $want: $name", ({ object, lane, want }) => {
    const objects = new Map(object ? [[KEY, listed(object)]] : []);
    const found = compareLane("pods", objects, LIST, lane);
    expect(found.map(({ kind, key }) => [kind, key])).toEqual(want === undefined ? [] : [[want, KEY]]);
    // A live read replaces only the value that was read.
    expect(found.map(({ stands }) => stands)).toEqual(
      want === undefined ? [] : [want === "other" || want === "unbelieved" ? STANDS : undefined],
    );
  });

  it("returns the owner of a differing object, so that the audit requeues it", () => {
    expect(compareLane("pods", new Map([[KEY, listed({ rv: "50" })]]), LIST, view(LIST))[0]?.primary).toEqual({
      controller: "replicaset",
      key: `shop/${OWNER.name}`,
    });
    const deployment = { kind: "Deployment", name: "web", uid: "d1", controller: true };
    const metadata = { namespace: "shop", name: "web-1", uid: "u", resourceVersion: "1", ownerReferences: [deployment] };
    expect(listedMeta("replicasets", { metadata })?.primary).toEqual({ controller: "deployment", key: "shop/web" });
    const odd = { ...metadata, ownerReferences: [{ ...deployment, name: "a/b" }] };
    expect(listedMeta("replicasets", { metadata: odd })).not.toHaveProperty("primary");
    expect(listedMeta("replicasets", { metadata: { ...metadata, uid: "" } })).toBeUndefined();
    expect(listedMeta("replicasets", {})).toBeUndefined();
  });
});

describe("an audit", () => {
  const CONTROLLER = cachedReplicationController({ name: "a" });

  /** One object of the resource, with one lane: as each list returns it, and as each read of the cache returns it. */
  function scene(lists: readonly (Pod | undefined)[], lookAt: (nowMs: number, looks: number) => LaneView) {
    const clock = createVirtualClock(0);
    const queries: ListQuery[] = [];
    let looks = 0;
    const at = (): LaneView => lookAt(clock.now(), looks);
    const ports: AuditPorts = {
      clock,
      kube: {
        listPage: async (_, query) => {
          const pod = lists[Math.min(queries.length, lists.length - 1)];
          queries.push(query);
          const { rv = "", uid = "u1" } = pod ?? {};
          const items = pod ? [{ metadata: { ...CONTROLLER.metadata, uid, resourceVersion: rv } }] : [];
          return { resourceVersion: "100", items };
        },
      },
      store: {
        readLane: async () => {
          looks++;
          const { watermark, rows } = at();
          return { watermark, rows: [...rows].map(([key, row]) => ({ key, gone: false, ...row })), forged: [], lanes: 1 };
        },
        readEntries: async () =>
          [...at().entries.values()].map(({ row, ...entry }) => ({ ...entry, ...(row && { row: { ...row, object: CONTROLLER } }) })),
        readGhosts: async () => [],
      },
    };
    return {
      clock,
      queries,
      run: (settleMs: number) => auditResource(ports, "replicationcontrollers", settleMs, new AbortController().signal),
    };
  }

  it("lists only metadata, at the cache's version or newer, and reports no difference when cache and list agree", async () => {
    const s = scene([{ rv: "50" }], () => view("100", { rv: "50", owned: false }));
    expect(await s.run(0)).toMatchObject({ compared: 1, unsettledLanes: 0 });
    expect(s.queries).toEqual([{ metadataOnly: true, limit: 500, resourceVersion: "100", resourceVersionMatch: "NotOlderThan" }]);
  });

  it("[informer T93] waits until the lane has applied the list's version, or until the deadline", async () => {
    const s = scene([undefined], (nowMs) => view(nowMs < 60_000 ? "40" : "100", { rv: "30" }));
    const soon = s.run(30_000);
    await s.clock.advance(30_000);
    expect(await soon).toMatchObject({ differences: [], unsettledLanes: 1 });
    const late = s.run(90_000);
    await s.clock.advance(90_000);
    expect(await late).toMatchObject({ differences: [{ kind: "surplus", key: KEY }], unsettledLanes: 0 });
    expect(s.clock.now()).toBe(120_000);
    const impatient = scene([undefined], () => view("40", { rv: "30" }));
    let isOver = false;
    void impatient.run(1_000).then(() => (isOver = true));
    await impatient.clock.advance(1_000);
    expect(isOver).toBe(true);
  });

  it("[informer T93] reports an uncached object as missing only if a second list, a quorum read, still contains it", async () => {
    const deleted = scene([{ rv: "50" }, undefined], () => view("120"));
    expect((await deleted.run(0)).differences).toEqual([]);
    const first = { resourceVersion: "120", resourceVersionMatch: "NotOlderThan" };
    expect(deleted.queries).toEqual([
      { metadataOnly: true, limit: 500, ...first },
      { metadataOnly: true, limit: 500 },
    ]);
    const lost = scene([{ rv: "50" }], () => view("120"));
    expect((await lost.run(0)).differences).toMatchObject([{ kind: "missing", key: KEY }]);
  });

  it("[informer T93] lists and reads the cache a second time before it reports a difference, and reports none that has disappeared", async () => {
    const s = scene([{ rv: "50" }], (_, look) => view("100", { rv: "50", owned: false }, look > 3));
    expect((await s.run(0)).differences).toEqual([]);
    expect(s.queries).toHaveLength(2);
  });
});
