// Would catch: a request body in process that the API server decodes otherwise than the same body as text.
import { expect, test } from "vitest";
import { exactText, parseExact } from "../../../shared/base/exact-json.ts";
import { clone, jsonCopy } from "../../../shared/base/json.ts";

const proto: unknown = JSON.parse('{ "__proto__": { "a": 1 }, "constructor": "x" }');

test.each([
  { what: "undefined", value: { a: undefined, b: [undefined, 1, null], c: { d: undefined } } },
  { what: "numbers that JSON lacks", value: { a: Number.NaN, b: [Number.POSITIVE_INFINITY], c: 1.5 } },
  { what: "dates", value: { a: new Date(0), b: [new Date(1_000)] } },
  { what: "a field that is called toJSON", value: { metadata: { labels: { toJSON: "x" } } } },
  { what: "keys of Object.prototype", value: proto },
  { what: "a template with a long integer", value: { spec: { template: { spec: { terminationGracePeriodSeconds: 2n ** 63n - 1n } } } } },
  { what: "a list", value: [{ a: undefined }] },
  { what: "a string", value: "x" },
])("copies $what as JSON does", ({ value }) => {
  expect(jsonCopy(value)).toStrictEqual(parseExact(exactText(value)));
});

test("copies deeply", () => {
  const value = { a: { b: [{ c: 1 }] } };
  for (const copy of [jsonCopy(value), clone(value)] as (typeof value)[]) {
    expect(copy).toEqual(value);
    expect(copy.a.b[0]).not.toBe(value.a.b[0]);
  }
  expect(Object.keys(clone(proto as { a: 1 }))).toEqual(["__proto__", "constructor"]);
});
