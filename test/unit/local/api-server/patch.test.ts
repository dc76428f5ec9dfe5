// Patches of the in-memory API server: strategic merge, merge and JSON.
import { expect, test } from "vitest";
import type { Json, JsonObject } from "../../../../shared/base/json.ts";
import { applyJsonPatch } from "../../../../shared/api-server/rest/patch-json.ts";
import { applyMergePatch } from "../../../../shared/api-server/rest/patch-merge.ts";
import { applyStrategicMergePatch } from "../../../../shared/api-server/rest/patch-strategic.ts";

interface Case {
  readonly name: string;
  readonly object: JsonObject;
  readonly patch: JsonObject;
  readonly want: JsonObject;
}

const container = (name: string, image: string): JsonObject => ({ name, image });

const STRATEGIC: readonly Case[] = [
  {
    name: "sets one image and keeps the other container (kubectl set image)",
    object: { containers: [container("a", "a:1"), container("b", "b:1")] },
    patch: { "$setElementOrder/containers": [{ name: "a" }, { name: "b" }], containers: [{ name: "b", image: "b:2" }] },
    want: { containers: [container("a", "a:1"), container("b", "b:2")] },
  },
  {
    name: "inserts an added container where the order directive puts it",
    object: { containers: [container("a", "a:1"), container("b", "b:1")] },
    patch: { "$setElementOrder/containers": [{ name: "c" }, { name: "a" }], containers: [container("c", "c:1")] },
    want: { containers: [container("c", "c:1"), container("a", "a:1"), container("b", "b:1")] },
  },
  {
    name: "deletes an element by its key",
    object: { env: [{ name: "A" }, { name: "B" }] },
    patch: { env: [{ name: "A", $patch: "delete" }] },
    want: { env: [{ name: "B" }] },
  },
  {
    name: "replaces a list with a replace directive",
    object: { env: [{ name: "A" }] },
    patch: { env: [{ $patch: "replace" }, { name: "B" }] },
    want: { env: [{ name: "B" }] },
  },
  {
    name: "replaces a map with a replace directive",
    object: { selector: { a: "1" } },
    patch: { selector: { $patch: "replace", b: "2" } },
    want: { selector: { b: "2" } },
  },
  {
    name: "keeps only the retained keys",
    object: { strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1 } } },
    patch: { strategy: { $retainKeys: ["type"], type: "Recreate" } },
    want: { strategy: { type: "Recreate" } },
  },
  {
    name: "adds an owner reference, merged by uid",
    object: { metadata: { ownerReferences: [{ uid: "1", name: "a" }] } },
    patch: { metadata: { ownerReferences: [{ uid: "2", name: "b" }] } },
    want: {
      metadata: {
        ownerReferences: [
          { uid: "2", name: "b" },
          { uid: "1", name: "a" },
        ],
      },
    },
  },
  {
    name: "removes one owner",
    object: { metadata: { ownerReferences: [{ uid: "1" }, { uid: "2" }] } },
    patch: { metadata: { ownerReferences: [{ $patch: "delete", uid: "1" }] } },
    want: { metadata: { ownerReferences: [{ uid: "2" }] } },
  },
  {
    name: "merges conditions by type",
    object: { conditions: [{ type: "A", status: "True" }] },
    patch: { conditions: [{ type: "A", status: "False" }] },
    want: { conditions: [{ type: "A", status: "False" }] },
  },
  {
    name: "adds a finalizer",
    object: { metadata: { finalizers: ["a"] } },
    patch: { metadata: { finalizers: ["b"] } },
    want: { metadata: { finalizers: ["b", "a"] } },
  },
  {
    name: "removes a finalizer",
    object: { metadata: { finalizers: ["a", "b"] } },
    patch: { metadata: { "$deleteFromPrimitiveList/finalizers": ["a"] } },
    want: { metadata: { finalizers: ["b"] } },
  },
  {
    name: "replaces lists without a merge key",
    object: { args: ["a", "b"], tolerations: [{ key: "a" }] },
    patch: { args: ["c"], tolerations: [{ key: "b" }] },
    want: { args: ["c"], tolerations: [{ key: "b" }] },
  },
  {
    name: "removes a field with null",
    object: { spec: { paused: true, replicas: 1 } },
    patch: { spec: { paused: null } },
    want: { spec: { replicas: 1 } },
  },
  { name: "leaves no directive in added values", object: {}, patch: { a: { $retainKeys: ["b"], b: 1, c: null } }, want: { a: { b: 1 } } },
];

test.each(STRATEGIC)("strategic merge: $name", ({ object, patch, want }) => {
  const before = structuredClone(object);
  expect(applyStrategicMergePatch("Deployment", object, patch)).toEqual(want);
  expect(object).toEqual(before);
});

test("merges a Service's ports by port, and a container's by containerPort", () => {
  const object: JsonObject = { ports: [{ port: 80, containerPort: 1 }] };
  const patch: JsonObject = { ports: [{ port: 81, containerPort: 1 }] };
  expect(applyStrategicMergePatch("Service", object, patch)["ports"]).toHaveLength(2);
  expect(applyStrategicMergePatch("Pod", object, patch)["ports"]).toHaveLength(1);
});

const MERGE: readonly Case[] = [
  {
    name: "merges maps and removes with null",
    object: { a: { b: 1, c: 2 } },
    patch: { a: { b: null, d: 3 } },
    want: { a: { c: 2, d: 3 } },
  },
  {
    name: "replaces lists completely",
    object: { conditions: [{ type: "A" }, { type: "B" }] },
    patch: { conditions: [{ type: "B" }] },
    want: { conditions: [{ type: "B" }] },
  },
  { name: "drops nulls inside added values", object: {}, patch: { a: { b: null, c: 1 } }, want: { a: { c: 1 } } },
];

test.each(MERGE)("merge patch: $name", ({ object, patch, want }) => {
  expect(applyMergePatch(object, patch)).toEqual(want);
});

const OPERATIONS: readonly { readonly name: string; readonly patch: Json; readonly want?: JsonObject }[] = [
  { name: "replaces a value", patch: [{ op: "replace", path: "/a/b", value: 2 }], want: { a: { b: 2 }, l: ["x", "y"] } },
  { name: "adds to the end of a list", patch: [{ op: "add", path: "/l/-", value: "z" }], want: { a: { b: 1 }, l: ["x", "y", "z"] } },
  { name: "inserts into a list", patch: [{ op: "add", path: "/l/0", value: "w" }], want: { a: { b: 1 }, l: ["w", "x", "y"] } },
  { name: "removes a list element", patch: [{ op: "remove", path: "/l/0" }], want: { a: { b: 1 }, l: ["y"] } },
  { name: "unescapes keys", patch: [{ op: "add", path: "/a/x~1y~0z", value: 1 }], want: { a: { b: 1, "x/y~z": 1 }, l: ["x", "y"] } },
  {
    name: "moves and copies",
    patch: [
      { op: "copy", from: "/l", path: "/m" },
      { op: "move", from: "/a/b", path: "/c" },
    ],
    want: { a: {}, l: ["x", "y"], m: ["x", "y"], c: 1 },
  },
  { name: "applies the patch if a test succeeds", patch: [{ op: "test", path: "/a/b", value: 1 }], want: { a: { b: 1 }, l: ["x", "y"] } },
  { name: "rejects the patch if a test fails", patch: [{ op: "test", path: "/a/b", value: 2 }] },
  { name: "rejects a replacement of a missing value", patch: [{ op: "replace", path: "/nope", value: 2 }] },
  { name: "rejects a removal of a missing value", patch: [{ op: "remove", path: "/a/nope" }] },
  { name: "rejects an unknown operation", patch: [{ op: "frob", path: "/a" }] },
];

test.each(OPERATIONS)("JSON patch: $name", ({ patch, want }) => {
  const object: JsonObject = { a: { b: 1 }, l: ["x", "y"] };
  if (want === undefined)
    expect(() => applyJsonPatch(object, patch)).toThrow("the server rejected our request due to an error in our request");
  else expect(applyJsonPatch(object, patch)).toEqual(want);
  expect(object).toEqual({ a: { b: 1 }, l: ["x", "y"] });
});

/** Parses JSON, because `{ __proto__: … }` in source code has another meaning. */
const wire = (text: string): JsonObject => JSON.parse(text) as JsonObject;

test.each<readonly [how: string, apply: (object: JsonObject, patch: JsonObject) => JsonObject]>([
  ["merge patch", applyMergePatch],
  ["strategic merge patch", (object, patch) => applyStrategicMergePatch("Pod", object, patch)],
  [
    "JSON patch",
    (object, patch) =>
      applyJsonPatch(
        object,
        Object.entries(patch).map(([key, value]) => ({ op: "add", path: `/${key}`, value })),
      ),
  ],
])("[informer T126] %s: treats a key such as __proto__ or constructor as an ordinary key", (_how, apply) => {
  const patch = '{"__proto__":{"finalizers":["a/b"]},"constructor":[{"name":"a"}],"toString":{"x":"1"}}';
  const patched = apply({ a: "1" }, wire(patch));
  expect(JSON.stringify(patched)).toBe(`{"a":"1",${patch.slice(1)}`);
  expect([patched["finalizers"], Object.getPrototypeOf(patched), Object.hasOwn(Object.prototype, "finalizers")]).toEqual([
    undefined,
    Object.prototype,
    false,
  ]);
  const again = apply(patched, wire('{"__proto__":{"more":"1"},"constructor":[{"name":"b"}]}'));
  expect(again["constructor"]).toEqual([{ name: "b" }]);
  expect(Object.hasOwn(Object.prototype, "more")).toBe(false);
});
