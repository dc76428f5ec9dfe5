/** Objects as text in slices. Catches a field that is left out and not put back, or put back with another value. */
import { assert, constantFrom, option, property, record, string } from "fast-check";
import { expect, it } from "vitest";
import { entryText, parseEntry, parseRow, rowText } from "../../../shared/adapters/redis/rows.ts";
import { cachedPod, cachedReplicaSet, keyOf, ownedBy, put } from "../../support/builders.ts";

const text = string({ minLength: 1, maxLength: 12 }).filter((value) => !value.includes("/"));

it("a pod comes back as it went in, whether or not key, row and object say the same", () => {
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
      const back = parseEntry("pods", row.key, row.owner, entryText("pods", row));
      expect(back).toEqual({
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

it("a primary comes back as it went in", () => {
  const deployment = { metadata: { name: "web", uid: "d1" } };
  const object = cachedReplicaSet({
    name: "web-1",
    resourceVersion: "12",
    labels: { app: "web" },
    owner: ownedBy("Deployment", deployment),
  });
  const entry = entryText("replicasets", put(object));
  expect(entry).not.toContain('"resourceVersion"');
  expect(parseEntry("replicasets", keyOf(object), "d1", entry).object).toEqual(object);
});

it("the flag that scripts add is read from both, and from neither without it", () => {
  const item = put(cachedPod({ resourceVersion: "12" }));
  expect(parseRow(item.key, rowText(item))).toEqual({ key: item.key, uid: item.uid, rv: "12", gone: false });
  expect(parseRow(item.key, `${rowText(item)}g`).gone).toBe(true);
  expect(parseEntry("pods", item.key, undefined, `g${entryText("pods", item)}`)).toMatchObject({ uid: item.uid, rv: "12", gone: true });
});
