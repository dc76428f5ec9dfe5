/** The text form of objects in slices. */
import { assert, constantFrom, option, property, record, string, uuid } from "fast-check";
import { expect, it } from "vitest";
import { ROW_TEXTS } from "../../../shared/controllers/own/row-texts.ts";
import { viewName } from "../../../shared/kube/strip/view-definition.ts";
import type { CachedObject } from "../../../shared/kube/objects/cached.ts";
import type { OwnController } from "../../../shared/kube/objects/resources.ts";
import type { ItemChange } from "../../../shared/store/ports/store.ts";
import {
  entryText,
  isGenuineTombstone,
  openEntry,
  openRecords,
  openRow,
  recordText,
  rowText,
  tombstoneText,
} from "../../../shared/store/redis/rows.ts";
import { testSigner } from "../../support/signer.ts";
import { cachedPod, cachedReplicaSet, keyOf, ownedBy, put } from "../../support/builders.ts";

const text = string({ minLength: 1, maxLength: 12 }).filter((value) => !value.includes("/"));

const SEAL = { signer: testSigner("c1"), epoch: "e1" };

it("returns a pod as it was stored, even if key, row and object disagree", () => {
  const fields = record({
    name: text,
    uid: text,
    rv: constantFrom("1", "18446744073709551617"),
    owner: option(text, { nil: undefined }),
    label: string(),
  });
  assert(
    property(fields, constantFrom("same", "name", "uid", "rv", "owner"), ({ name, uid, rv, owner, label }, other) => {
      const object = cachedPod({
        name,
        uid,
        resourceVersion: rv,
        labels: { app: label },
        ...(owner !== undefined && { owner: { kind: "ReplicaSet", name: "web", uid: owner } }),
      });
      const item = put(object);
      const row = {
        ...item,
        ...(other === "name" && { key: "shop/other" }),
        ...(other === "uid" && { uid: "other" }),
        ...(other === "rv" && { rv: "7" }),
        ...(other === "owner" && { owner: "other" }),
      };
      const back = openEntry(SEAL, "pods", row.key, row.owner, entryText(SEAL, "pods", row));
      expect(back).toMatchObject({ kind: "good" });
      expect("value" in back && back.value).toEqual({
        key: row.key,
        uid: row.uid,
        rv: row.rv,
        ...(row.owner !== undefined && { owner: row.owner }),
        gone: false,
        object,
      });
    }),
  );
});

it("returns a primary as it was stored", () => {
  const deployment = { metadata: { name: "web", uid: "d1" } };
  const object = cachedReplicaSet({
    name: "web-1",
    resourceVersion: "12",
    labels: { app: "web" },
    owner: ownedBy("Deployment", deployment),
  });
  const entry = entryText(SEAL, "replicasets", put(object));
  expect(entry).not.toContain('"resourceVersion"');
  expect(openEntry(SEAL, "replicasets", keyOf(object), put(object).owner, entry)).toMatchObject({ kind: "good", value: { object } });
});

const VIEW = viewName("configmaps", "c" as OwnController, "1"); // a controller's name
const OWN_SEAL = { ...SEAL, rowTexts: ROW_TEXTS };
const ownPut = (uid: string): ItemChange & { readonly object: CachedObject } => {
  const object: CachedObject = { metadata: { namespace: "shop", name: "a", uid, resourceVersion: "12" } };
  return { type: "put", key: "shop/a", uid, rv: "12", object, effects: [], counted: false, lowers: [] };
};

it("returns an object of a user controller as it was stored, with a UUID in 23 bytes", () => {
  assert(
    property(string({ unit: "grapheme" }), uuid(), (any, id) => {
      for (const uid of [any, id, id.toUpperCase(), `${id}0`]) {
        const item = ownPut(uid);
        for (const seal of [SEAL, OWN_SEAL]) {
          const entry = openEntry(seal, VIEW, "shop/a", undefined, entryText(seal, VIEW, item));
          expect(entry).toMatchObject({ kind: "good", value: { uid, rv: "12", object: item.object } });
          expect(openRow(seal, VIEW, "shop/a", rowText(seal, VIEW, item))).toMatchObject({ value: { uid, rv: "12" } });
          expect(isGenuineTombstone(seal, VIEW, "shop/a", tombstoneText(seal, VIEW, item))).toBe(true);
        }
      }
      expect(rowText(OWN_SEAL, VIEW, ownPut(id)).length).toBe(rowText(SEAL, VIEW, ownPut(id)).length - 13);
    }),
  );
});

it("stores objects of built-in controllers in the same form beside user controllers", () => {
  const item = put(cachedPod({ uid: "1ca7e6c0-498e-4700-b1f0-ac0d434d1ff8", resourceVersion: "12" }));
  expect(rowText(OWN_SEAL, "pods", item)).toBe(rowText(SEAL, "pods", item));
  expect(entryText(OWN_SEAL, "pods", item)).toBe(entryText(SEAL, "pods", item));
});

it("[informer A14] treats an object or a record in another form as absent", () => {
  const other = { ...SEAL, rowTexts: { shorten: () => "v9", restore: (text: string) => text } };
  expect(openEntry(OWN_SEAL, VIEW, "shop/a", undefined, entryText(other, VIEW, ownPut("v9")))).toEqual({ kind: "forged" });
  const record = { uid: "u", sent: "s", content: "c", revertsMs: [] };
  expect(openRecords(OWN_SEAL, "owner", [["t:w:self", recordText(other, "owner", "self", record)]]).size).toBe(0);
  expect(openRecords(OWN_SEAL, "owner", [["t:w:self", recordText(OWN_SEAL, "owner", "self", record)]]).size).toBe(1);
});

it("reads the optional flag that scripts add to a row or an entry", () => {
  const item = put(cachedPod({ resourceVersion: "12" }));
  const row = rowText(SEAL, "pods", item);
  expect(openRow(SEAL, "pods", item.key, row)).toEqual({
    kind: "good",
    value: { key: item.key, uid: item.uid, rv: "12", gone: false },
  });
  expect(openRow(SEAL, "pods", item.key, `${row}g7`)).toMatchObject({ value: { gone: true } });
  const entry = `g7${entryText(SEAL, "pods", item)}`;
  expect(openEntry(SEAL, "pods", item.key, undefined, entry)).toMatchObject({
    value: { uid: item.uid, rv: "12", gone: true, goneSinceMs: 7 },
  });
});

it("[informer A14] rejects a value that was modified in one character, or copied to another place", () => {
  const item = put(cachedPod({ resourceVersion: "12", owner: { kind: "ReplicaSet", name: "web", uid: "u1" } }));
  const texts = { v: rowText(SEAL, "pods", item), s: entryText(SEAL, "pods", item), t: tombstoneText(SEAL, "pods", item) };
  const open = {
    v: (text: string, key = item.key, seal = SEAL) => openRow(seal, "pods", key, text).kind === "good",
    s: (text: string, key = item.key, seal = SEAL) => openEntry(seal, "pods", key, item.owner, text).kind === "good",
    t: (text: string, key = item.key, seal = SEAL) => isGenuineTombstone(seal, "pods", key, text),
  };
  for (const where of ["v", "s", "t"] as const) {
    expect(open[where](texts[where])).toBe(true);
    for (let at = 0; at < texts[where].length; at++) {
      // Flags are not covered by the MAC: they precede the first separator of an entry, and follow the last one of a row.
      const other = texts[where][at] === "x" ? "y" : "x";
      const text = texts[where].slice(0, at) + other + texts[where].slice(at + 1);
      const touchesFlags = (where === "s" && at === 0) || (where === "v" && at === texts.v.length - 1);
      if (!touchesFlags) expect(open[where](text), `${where} ${at}`).toBe(false);
    }
    expect(open[where](texts[where], "shop/other")).toBe(false);
    expect(open[where](texts[where], item.key, { ...SEAL, epoch: "e2" })).toBe(false);
  }
  expect(openEntry(SEAL, "pods", item.key, "another owner", texts.s).kind).toBe("forged");
  expect(openRow(SEAL, "replicasets", item.key, texts.v).kind).toBe("forged");
  expect(openRow(SEAL, "pods", item.key, texts.s).kind).toBe("forged");
});
