/**
 * Decisions about writes to owned objects. Catches: an unnecessary request, a change of another owner's object, and a loop between two
 * writers.
 */
import { describe, expect, it } from "vitest";

import { customResource, defineController, own, s } from "../../../shared/sdk/index.ts";
import { ConfigMap, Namespace, PersistentVolumeClaim, Service } from "../../../shared/sdk/kinds.ts";
import {
  afterAnswer,
  afterTaken,
  contentOf,
  contestedBackOffMs,
  decideWrites,
  isContested,
  isManagedBy,
  recordOf,
  sentText,
  stagesOf,
  statusContentOf,
  upgradePatch,
  wantedBy,
} from "../../../shared/sdk/writes.ts";
import type { CachedOwned, LastWrite, ObjectBody, Observed, OwnAnswer, OwnWrite, Wanted } from "../../../shared/sdk/writes.ts";

const status = s.object({ ready: s.integer().optional() });
const Site = customResource({ group: "x.example.com", version: "v1", kind: "Site", spec: s.object({}), status });
const kinds = [Service, ConfigMap, PersistentVolumeClaim];
const { definition } = defineController({ name: "site", for: Site, owns: kinds, sync: () => undefined });
const primary = { name: "a", namespace: "shop", uid: "u1", resourceVersion: "5", generation: 1 };
const NOW_MS = 1_000_000;
/** A digest that is readable text. */
const digest = (text: string): string => `digest of ${text}`;

const body = (port = 80) => ({ apiVersion: "v1", kind: "Service", metadata: { name: "a" }, spec: { port } });
const ID = "Service./shop/a";

function wanted(result: object): Wanted {
  const checked = wantedBy(definition, primary, result);
  if ("problems" in checked) throw new Error(checked.problems.join());
  return checked.wanted;
}

/** Returns the digest that a sent object or field set would have. */
function sent(result: { readonly apply?: readonly object[]; readonly self?: object; readonly status?: object }): string {
  const { apply, self, status: given } = wanted(result);
  return digest(sentText(apply?.[0]?.body ?? self ?? given));
}

function owned(changes: Partial<CachedOwned> = {}): CachedOwned {
  const id = { kind: Service.data, namespace: "shop", name: "a" };
  return { id, uid: "s1", resourceVersion: "9", content: "as answered", isManaged: true, isDeleting: false, ...changes };
}

function record(changes: Partial<LastWrite> = {}): LastWrite {
  return { uid: "s1", sent: sent({ apply: [body()] }), content: "as answered", revertsMs: [], ...changes };
}

function decided(result: object, observed: Partial<Observed> = {}) {
  const seen = {
    primary,
    content: "c",
    statusContent: "st",
    isManaged: false,
    owned: [],
    records: new Map<string, LastWrite>(),
    ...observed,
  };
  return decideWrites(definition, wanted(result), seen, digest, NOW_MS);
}
const short = (writes: readonly OwnWrite[]): readonly string[] =>
  writes.map((write) => `${write.kind}${"id" in write ? ` ${write.id.kind.kind} ${write.id.name}` : ""}: ${write.why}`);

describe("an object in `apply`", () => {
  const six = [1, 2, 3, 4, 5, 6].map((n) => NOW_MS - n * 1_000);

  it.each([
    { what: "is created when it is missing", cached: undefined, stored: undefined, want: ["create Service a: missing"] },
    { what: "is created when it was owned and is missing", cached: undefined, stored: record(), want: ["create Service a: missing"] },
    { what: "causes no request when it was applied and has not changed since", cached: owned(), stored: record(), want: [] },
    {
      what: "is applied when there is no last-write record",
      cached: owned(),
      stored: undefined,
      want: ["apply Service a: last write unknown"],
    },
    {
      what: "is applied when this manager has not written it",
      cached: owned({ isManaged: false }),
      stored: undefined,
      want: ["apply Service a: desired state changed"],
    },
    {
      what: "is applied when something else was sent",
      cached: owned(),
      stored: record({ sent: "x" }),
      want: ["apply Service a: desired state changed"],
    },
    {
      what: "is applied when its content changed",
      cached: owned({ content: "x" }),
      stored: record(),
      want: ["apply Service a: changed since the last write"],
    },
    {
      what: "is applied when the record is of an earlier object",
      cached: owned({ uid: "s2" }),
      stored: record(),
      want: ["apply Service a: last write unknown"],
    },
    { what: "is not applied while it is being deleted", cached: owned({ isDeleting: true, content: "x" }), stored: record(), want: [] },
    {
      what: "is not applied while another writer contests it",
      cached: owned({ content: "x" }),
      stored: record({ revertsMs: six }),
      want: [],
    },
    {
      what: "is applied although it is contested when its desired state changed",
      cached: owned({ content: "x" }),
      stored: record({ sent: "x", revertsMs: six }),
      want: ["apply Service a: desired state changed"],
    },
  ])("$what", ({ cached, stored, want }) => {
    const records = new Map(stored ? [[ID, stored]] : []);
    expect(short(decided({ apply: [body()] }, { owned: cached ? [cached] : [], records }).writes)).toEqual(want);
  });

  it.each([
    { what: "just replaced", replaced: {}, isRevert: true },
    { what: "replaced a while ago", replaced: { atMs: NOW_MS - 10_000 }, isRevert: false },
    { what: "replaced before the primary changed", replaced: { generation: 0 }, isRevert: false },
    { what: "never sent", replaced: { sent: "y" }, isRevert: false },
  ])("the write is counted as a revert ($isRevert) if it restores a state that the last write has $what", ({ replaced, isRevert }) => {
    const before = { sent: sent({ apply: [body()] }), atMs: NOW_MS - 1_000, generation: 1, ...replaced };
    const records = new Map([[ID, record({ sent: "x", replaced: before })]]);
    expect(decided({ apply: [body()] }, { owned: [owned()], records }).writes).toEqual([expect.objectContaining({ isRevert })]);
    const contested = new Map([[ID, record({ sent: "x", replaced: before, revertsMs: six })]]);
    expect(decided({ apply: [body()] }, { owned: [owned()], records: contested }).contested).toEqual(isRevert ? [ID] : []);
  });

  it("is applied with the uid of the object that was read, whose resourceVersion is kept for the last-write record", () => {
    const { writes } = decided({ apply: [body()] }, { owned: [owned()] });
    expect(writes).toEqual([expect.objectContaining({ kind: "apply", uid: "s1", readVersion: "9", isRevert: false })]);
  });

  it("is reported if another client keeps reverting it", () => {
    const records = new Map([[ID, record({ revertsMs: six })]]);
    expect(decided({ apply: [body()] }, { owned: [owned({ content: "x" })], records }).contested).toEqual([ID]);
  });
});

describe("an owned object that is not in `apply`", () => {
  const claim = owned({ id: { kind: PersistentVolumeClaim.data, namespace: "shop", name: "data" } });

  it.each([
    { what: "is pruned", result: { apply: [] }, cached: owned(), want: ["prune Service a: no longer desired"] },
    { what: "stays without `apply`", result: {}, cached: owned(), want: [] },
    { what: "stays when it is kept", result: { apply: [], keep: [{ kind: "Service", name: "a" }] }, cached: owned(), want: [] },
    { what: "stays when this manager never wrote it", result: { apply: [] }, cached: owned({ isManaged: false }), want: [] },
    { what: "is not deleted twice", result: { apply: [] }, cached: owned({ isDeleting: true }), want: [] },
    { what: "stays when its kind holds data", result: { apply: [] }, cached: claim, want: [] },
    {
      what: "stays when its kind is no longer owned",
      result: { apply: [] },
      cached: owned({ id: { kind: Namespace.data, namespace: "", name: "a" } }),
      want: [],
    },
  ])("$what", ({ result, cached, want }) => {
    expect(short(decided(result, { owned: [cached] }).writes)).toEqual(want);
  });

  it("is pruned or kept according to the `prune` option of its definition, even for kinds that hold data", () => {
    const owns = [own(PersistentVolumeClaim, {}, { prune: true }), own(Service, {}, { prune: false })];
    const { definition: other } = defineController({ name: "site", for: Site, owns, sync: () => undefined });
    const seen = {
      primary,
      content: "c",
      statusContent: "st",
      isManaged: false,
      owned: [claim, owned()],
      records: new Map<string, LastWrite>(),
    };
    expect(short(decideWrites(other, { apply: [], keep: [], isRemoved: false }, seen, digest, NOW_MS).writes)).toEqual([
      "prune PersistentVolumeClaim data: no longer desired",
    ]);
  });
});

interface PrimaryCase {
  readonly what: string;
  readonly stored: readonly (readonly [string, LastWrite])[];
  readonly isManaged?: boolean;
  readonly want: readonly string[];
}

describe("writes of the primary", () => {
  it.each([
    {
      what: "self and status are sent when there is no last-write record",
      stored: [],
      want: ["self: desired state changed", "status: desired state changed"],
    },
    {
      what: "self and status are sent again after their records were lost",
      stored: [],
      isManaged: true,
      want: ["self: last write unknown", "status: last write unknown"],
    },
    {
      what: "a status is sent for the first time after `self`",
      stored: [["self", record({ uid: "u1", sent: sent({ self: { spec: { a: 1 } } }), content: "c" })]],
      isManaged: true,
      want: ["status: desired state changed"],
    },
    {
      what: "neither is sent when nothing changed",
      stored: [
        ["self", record({ uid: "u1", sent: sent({ self: { spec: { a: 1 } } }), content: "c" })],
        ["status", record({ uid: "u1", sent: sent({ status: { ready: 1 } }), content: "st" })],
      ],
      want: [],
    },
    {
      what: "the status is sent when another writer changed it",
      stored: [
        ["self", record({ uid: "u1", sent: sent({ self: { spec: { a: 1 } } }), content: "c" })],
        ["status", record({ uid: "u1", sent: sent({ status: { ready: 1 } }), content: "other" })],
      ],
      want: ["status: changed since the last write"],
    },
  ] satisfies readonly PrimaryCase[])("$what", ({ stored, isManaged = false, want }: PrimaryCase) => {
    const { writes } = decided({ self: { spec: { a: 1 } }, status: { ready: 1 } }, { records: new Map(stored), isManaged });
    expect(short(writes)).toEqual(want);
    expect(writes.every((write) => !("resourceVersion" in write) || write.resourceVersion === "5")).toBe(true);
  });

  it("come after the writes of owned objects", () => {
    const { writes } = decided({ apply: [body()], self: {}, status: {} }, { owned: [owned({ id: { ...owned().id, name: "old" } })] });
    expect(writes.map(({ kind }) => kind)).toEqual(["create", "prune", "self", "status"]);
  });

  it("are one delete with the resourceVersion that was read, if the sync removes the primary", () => {
    expect(decided({ remove: true }, { owned: [owned()] })).toEqual({
      writes: [{ kind: "remove", uid: "u1", resourceVersion: "5", why: "returned by sync" }],
      contested: [],
      needsLiveRead: true,
    });
  });
});

it.each([
  { what: "a create", result: { apply: [body()] }, cached: [], want: true },
  { what: "a prune", result: { apply: [] }, cached: [owned()], want: true },
  { what: "an apply", result: { apply: [body()] }, cached: [owned()], want: false },
  { what: "a status", result: { status: {} }, cached: [owned()], want: false },
])("$what needs a live read of the primary: $want", ({ result, cached, want }) => {
  expect(decided(result, { owned: cached }).needsLiveRead).toBe(want);
});

describe("the action after a response", () => {
  const object: ObjectBody = { ...body(), metadata: { name: "a", uid: "s1" } };
  const create = { kind: "create", id: owned().id, body: wanted({ apply: [body()] }).apply?.[0]?.body ?? object, why: "missing" } as const;
  const apply = { ...create, kind: "apply", uid: "s1", readVersion: "9", isRevert: false, why: "desired state changed" } as const;
  const prune = { kind: "prune", id: owned().id, uid: "s1", resourceVersion: "9", why: "no longer desired" } as const;
  const statusWrite = { kind: "status", body: {}, uid: "u1", resourceVersion: "5", isRevert: false, why: "desired state changed" } as const;
  const remove = { kind: "remove", uid: "u1", resourceVersion: "5", why: "returned by sync" } as const;

  it.each<{ readonly write: OwnWrite; readonly answer: OwnAnswer; readonly want: string }>([
    { write: create, answer: { kind: "ok", object }, want: "record" },
    { write: create, answer: { kind: "alreadyExists" }, want: "look" },
    { write: apply, answer: { kind: "ok", object }, want: "record" },
    { write: apply, answer: { kind: "changed" }, want: "decideAgain" },
    { write: apply, answer: { kind: "fieldConflict", managers: ["kubectl", "deltaloop-site"] }, want: "force" },
    { write: apply, answer: { kind: "fieldConflict", managers: ["kubectl", "deltaloop-other"] }, want: "backOff" },
    { write: prune, answer: { kind: "gone" }, want: "done" },
    { write: prune, answer: { kind: "changed" }, want: "done" },
    { write: statusWrite, answer: { kind: "ok", object }, want: "record" },
    { write: statusWrite, answer: { kind: "changed" }, want: "decideAgain" },
    { write: remove, answer: { kind: "gone" }, want: "done" },
    { write: remove, answer: { kind: "changed" }, want: "decideAgain" },
  ])("is '$want' after '$answer.kind' for a $write.kind", ({ write, answer, want }) => {
    expect(afterAnswer(write, answer, "site").kind).toBe(want);
  });

  const [reference] = create.body.metadata.ownerReferences ?? [];
  it.each([
    { what: "the same primary controls", references: [reference], want: "record" },
    { what: "an earlier primary of the same name controls", references: [{ ...reference, uid: "u0" }], want: "backOff" },
    { what: "an owner of another kind with the same uid controls", references: [{ ...reference, kind: "Other" }], want: "backOff" },
    {
      what: "the same primary controls in another API version",
      references: [{ ...reference, apiVersion: "x.example.com/v2" }],
      want: "record",
    },
    { what: "has an owner that is not its controller", references: [{ ...reference, controller: false }], want: "backOff" },
    { what: "has no owner", references: [], want: "backOff" },
  ])("is '$want' if the name is taken by an object that $what", ({ references, want }) => {
    const found = { ...object, metadata: { name: "a", ownerReferences: references } } as ObjectBody;
    expect(afterTaken(create, found).kind).toBe(want);
  });

  it("is a new decision if the object with the name no longer exists", () => {
    expect(afterTaken(create, undefined).kind).toBe("decideAgain");
  });

  it("the back-off doubles from 5 s to 5 min", () => {
    expect([1, 2, 3, 7, 20].map(contestedBackOffMs)).toEqual([5_000, 10_000, 20_000, 300_000, 300_000]);
  });
});

describe("a last-write record", () => {
  const answer = { uid: "s1", resourceVersion: "10", content: "new" };
  const revert = { sent: "x", generation: 1, isRevert: true, readVersion: "9" };

  it("counts a write that reverted the object, but not a write without effect", () => {
    expect(recordOf(revert, answer, record({ sent: "x", revertsMs: [NOW_MS - 1] }), NOW_MS)).toEqual({
      uid: "s1",
      sent: "x",
      content: "new",
      revertsMs: [NOW_MS - 1, NOW_MS],
    });
    expect(recordOf({ ...revert, readVersion: "10" }, answer, record(), NOW_MS).revertsMs).toEqual([]);
    expect(recordOf({ ...revert, isRevert: false }, answer, record(), NOW_MS).revertsMs).toEqual([]);
  });

  it("records what the write replaced, and the generation of the primary, until a different write is sent", () => {
    const first = recordOf({ ...revert, sent: "a" }, answer, undefined, NOW_MS);
    const second = recordOf({ ...revert, sent: "b", generation: 2 }, answer, first, NOW_MS + 1);
    expect(first.replaced).toBeUndefined();
    expect(second.replaced).toEqual({ sent: "a", atMs: NOW_MS + 1, generation: 2 });
    expect(recordOf({ ...revert, sent: "b", generation: 3 }, answer, second, NOW_MS + 2).replaced).toEqual(second.replaced);
    expect(recordOf({ ...revert, sent: "b" }, { ...answer, uid: "s2" }, second, NOW_MS + 2).replaced).toBeUndefined();
  });

  it("forgets reverts after ten minutes, and reverts of an earlier object with the same name", () => {
    expect(recordOf(revert, answer, record({ revertsMs: [NOW_MS - 600_000] }), NOW_MS).revertsMs).toEqual([NOW_MS]);
    expect(recordOf(revert, answer, record({ uid: "s0", revertsMs: [NOW_MS - 1] }), NOW_MS).revertsMs).toEqual([NOW_MS]);
  });

  it("reports an object as contested after the sixth revert within ten minutes", () => {
    let stored: LastWrite | undefined;
    const contested = Array.from({ length: 7 }, (_, i) => {
      stored = recordOf(revert, answer, stored, NOW_MS + i);
      return isContested(stored, NOW_MS + i);
    });
    expect(contested).toEqual([false, false, false, false, false, true, true]);
    expect(stored?.revertsMs).toHaveLength(6);
    expect(isContested(stored, NOW_MS + 700_000)).toBe(false);
  });
});

describe("the content of an object", () => {
  const entry = { manager: "deltaloop-site", operation: "Apply", apiVersion: "v1", fieldsV1: { "f:spec": {} } };
  const other = { ...entry, manager: "kubectl" };
  const metadata = { name: "a", resourceVersion: "1", generation: 1, labels: { x: "y" }, managedFields: [entry, other] };
  const object = { ...body(), metadata, status: { ready: 1 } };

  it.each([
    { what: "its status", changed: { ...object, status: { ready: 2 } }, same: true },
    {
      what: "its version and generation",
      changed: { ...object, metadata: { ...metadata, resourceVersion: "2", generation: 2 } },
      same: true,
    },
    { what: "another manager's entry", changed: { ...object, metadata: { ...metadata, managedFields: [entry] } }, same: true },
    {
      what: "the order of its fields",
      changed: { status: object.status, spec: object.spec, metadata, kind: object.kind, apiVersion: object.apiVersion },
      same: true,
    },
    {
      what: "this manager's entry",
      changed: { ...object, metadata: { ...metadata, managedFields: [{ ...entry, operation: "Update" }, other] } },
      same: false,
    },
    { what: "its spec", changed: { ...object, spec: { port: 81 } }, same: false },
    { what: "a label", changed: { ...object, metadata: { ...metadata, labels: {} } }, same: false },
    { what: "its deletionTimestamp", changed: { ...object, metadata: { ...metadata, deletionTimestamp: "now" } }, same: false },
  ])("is the same after a change of $what: $same", ({ changed, same }) => {
    expect(contentOf(changed, "deltaloop-site") === contentOf(object, "deltaloop-site")).toBe(same);
  });

  it("is only the status for a status write", () => {
    expect(statusContentOf({ ...object, spec: {} })).toBe(statusContentOf(object));
    expect(statusContentOf({ ...object, status: {} })).not.toBe(statusContentOf(object));
  });

  it("an object is managed by each field manager with a managedFields entry", () => {
    expect(["deltaloop-site", "kubectl", "other"].map((manager) => isManagedBy(object, manager))).toEqual([true, true, false]);
  });
});

describe("the managedFields entry of a create", () => {
  const created = { manager: "deltaloop-site", operation: "Update", apiVersion: "v1", fieldsV1: { "f:spec": { "f:port": {} } } };
  const applied = { ...created, operation: "Apply", fieldsV1: { "f:spec": { "f:type": {} } } };
  const scaled = { ...created, subresource: "scale" };
  const kubectl = { ...created, manager: "kubectl" };
  const object = (managedFields: readonly object[]): ObjectBody => ({
    ...body(),
    metadata: { name: "a", resourceVersion: "7", managedFields },
  });
  const version = { op: "replace", path: "/metadata/resourceVersion", value: "7" };

  it.each([
    {
      what: "becomes an entry of an apply",
      managed: [kubectl, created, scaled],
      want: [kubectl, { ...created, operation: "Apply" }, scaled],
    },
    {
      what: "is added to that of an apply",
      managed: [applied, kubectl, created],
      want: [{ ...applied, fieldsV1: { "f:spec": { "f:type": {}, "f:port": {} } } }, kubectl],
    },
    {
      what: "of another API version is dropped beside an entry of an apply",
      managed: [applied, { ...created, apiVersion: "v1beta1" }],
      want: [applied],
    },
  ])("$what, with the resourceVersion that was read", ({ managed, want }) => {
    expect(upgradePatch(object(managed), "deltaloop-site")).toEqual([
      { op: "replace", path: "/metadata/managedFields", value: want },
      version,
    ]);
  });

  it.each([
    { what: "only an entry of an apply", managed: [applied, kubectl] },
    { what: "only an entry of a subresource update", managed: [scaled] },
    { what: "no entries", managed: [] },
  ])("is not rewritten if there is $what", ({ managed }) => {
    expect(upgradePatch(object(managed), "deltaloop-site")).toBeUndefined();
  });
});

describe("stages of writes", () => {
  const named = (kind: "create" | "apply" | "prune", of: typeof Service | typeof Namespace, name: string) =>
    ({ kind, id: { kind: of.data, namespace: "", name } }) as OwnWrite; // the fields that determine the stages
  const only = (kind: "self" | "status" | "remove") => ({ kind }) as OwnWrite; // the fields that determine the stages
  const shown = (writes: readonly OwnWrite[]) =>
    stagesOf(writes).map((stage) => stage.map((write) => ("id" in write ? `${write.kind} ${write.id.name}` : write.kind)));

  it("send the objects of `apply` concurrently, then the deletes of pruned objects, `self` and `status`", () => {
    const writes = [
      named("create", Service, "a"),
      named("apply", Service, "b"),
      named("prune", Service, "c"),
      named("prune", Service, "d"),
    ];
    expect(shown([...writes, only("self"), only("status")])).toEqual([
      ["create a", "apply b"],
      ["prune c", "prune d"],
      ["self"],
      ["status"],
    ]);
    expect(shown([only("remove")])).toEqual([["remove"]]);
    expect(shown([])).toEqual([]);
  });

  it("write a namespace before the objects that follow it", () => {
    const writes = [
      named("create", Service, "a"),
      named("create", Namespace, "n"),
      named("create", Service, "b"),
      named("apply", Service, "c"),
    ];
    expect(shown(writes)).toEqual([
      ["create a", "create n"],
      ["create b", "apply c"],
    ]);
  });
});
