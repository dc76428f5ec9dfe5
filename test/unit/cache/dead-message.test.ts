// Would catch: a lost message that leaves its cache trusted, one of unknown origin that concerns nobody, a body that makes the reader throw.
import fc from "fast-check";
import { expect, it } from "vitest";
import { CACHED_RESOURCES } from "../../../shared/api/resources.ts";
import { readDeadMessage } from "../../../shared/cache/dead-message.ts";
import { encodePackText } from "../../../shared/cache/pack-codec.ts";

const envelope = { v: 1, c: "c1", r: "pods", e: "e1", f: "812", g: 1, ln: 3, sq: 42, k: "D", ts: 0, items: [] };
const body = (fields: object): string => JSON.stringify({ ...envelope, ...fields });

it.each([
  {
    name: "an envelope that this build understands",
    text: body({}),
    want: { cluster: "c1", resources: ["pods"], what: "D of pods, lane 3, sequence 42 of fence 812", why: "it failed every time" },
  },
  {
    name: "a newer envelope",
    text: body({ v: 2, r: "deployments", items: "who knows" }),
    want: { cluster: "c1", resources: ["deployments"], what: "deployments", why: "envelope version 2, this build reads up to 1" },
  },
  {
    name: "a newer envelope of a resource that only newer builds watch",
    text: body({ v: 2, r: "nodes" }),
    want: { cluster: "c1", resources: CACHED_RESOURCES, what: "unknown resource", why: "envelope version 2, this build reads up to 1" },
  },
  {
    name: "an envelope without a head",
    text: '{"v":1,"r":"replicasets"}',
    want: { resources: ["replicasets"], what: "replicasets", why: "c is no text" },
  },
  {
    name: "a list",
    text: "[]",
    want: { resources: CACHED_RESOURCES, what: "unknown resource", why: "not a JSON object" },
  },
])("$name says whose cache may miss something", ({ text, want }) => {
  expect(readDeadMessage(text)).toEqual(want);
  expect(readDeadMessage(encodePackText(text))).toEqual(want);
});

it("reads any body, and there is always a cache that it concerns", () => {
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (text) => readDeadMessage(text).resources.length > 0));
});
