// Would catch: a spurious update because two notations of one object differ, and a missed update.
import { describe, expect, it } from "vitest";
import { canonicalJson, jsonEqual } from "../../../../shared/node-agent/kubelet/types/json-equal.ts";

describe("jsonEqual and canonicalJson agree", () => {
  const table: { name: string; a: unknown; b: unknown; equal: boolean }[] = [
    { name: "keys in another order", a: { x: 1, y: { z: [1, "2"] } }, b: { y: { z: [1, "2"] }, x: 1 }, equal: true },
    { name: "an undefined field", a: { x: 1, y: undefined }, b: { x: 1 }, equal: true },
    { name: "the same number of fields, one of them undefined", a: { x: 1, y: undefined }, b: { x: 1, z: 2 }, equal: false },
    { name: "another key for the same value", a: { x: 1 }, b: { y: 1 }, equal: false },
    { name: "a list in another order", a: [1, 2], b: [2, 1], equal: false },
    { name: "a longer list", a: [1], b: [1, 2], equal: false },
    { name: "a list and an object", a: ["x"], b: { 0: "x" }, equal: false },
    { name: "an object and a list", a: {}, b: [], equal: false },
    { name: "null and an object", a: { x: null }, b: { x: {} }, equal: false },
    { name: "a number and its text", a: { x: 1 }, b: { x: "1" }, equal: false },
    { name: "text with quotes", a: { 'a"': "b" }, b: { a: '"b' }, equal: false },
    { name: "a field named toString", a: { x: 1 }, b: { toString: 1 }, equal: false },
    { name: "a field named __proto__", a: JSON.parse('{"__proto__":{}}'), b: { x: 1 }, equal: false },
  ];
  it.each(table)("JSON values with $name are equal: $equal", ({ a, b, equal }) => {
    expect([jsonEqual(a, b), jsonEqual(b, a), canonicalJson(a) === canonicalJson(b)]).toEqual([equal, equal, equal]);
  });
});
