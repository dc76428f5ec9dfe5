/** JSON whose templates keep integers of any size. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exactNumber, exactText, parseExact } from "../../../shared/base/exact-json.ts";

const MAX = 9223372036854775807n;
const object = (template: string): string =>
  `{"kind":"Deployment","metadata":{"name":"web","generation":9007199254740993},"spec":{"replicas":3,"template":${template}}}`;
const spec = (fields: string): string => object(`{"spec":{${fields}}}`);
const templateOf = (text: string) => (parseExact(text) as { readonly spec: { readonly template: object } }).spec.template;

describe("parseExact", () => {
  it.each([
    {
      field: "reads an int64 field as a bigint",
      text: `"terminationGracePeriodSeconds":9223372036854775807`,
      value: { terminationGracePeriodSeconds: MAX },
    },
    {
      field: "reads a negative integer after a line break as a bigint",
      text: `"activeDeadlineSeconds": \n -9223372036854775808`,
      value: { activeDeadlineSeconds: -MAX - 1n },
    },
    { field: "reads a list element as a bigint", text: `"groups":[1,9007199254740993]`, value: { groups: [1, 9007199254740993n] } },
    { field: "reads the first list element as a bigint", text: `"groups":[ 9007199254740993]`, value: { groups: [9007199254740993n] } },
    { field: "reads the smallest unsafe integer as a bigint", text: `"n":9007199254740992`, value: { n: 9007199254740992n } },
    { field: "reads the largest safe integer as a number", text: `"n":9007199254740991`, value: { n: 9007199254740991 } },
    { field: "reads fractions and exponents as numbers", text: `"n":9007199254740993.5,"m":1e30`, value: { n: 9007199254740994, m: 1e30 } },
    { field: "reads an integer beyond int64 as a number", text: `"n":92233720368547758070`, value: { n: Number("92233720368547758070") } },
    {
      field: "leaves digits within strings unchanged",
      text: `"image":"a:9007199254740993","n":"9007199254740993"`,
      value: { image: "a:9007199254740993", n: "9007199254740993" },
    },
  ])("EJ1 $field", ({ text, value }) => {
    expect(templateOf(spec(text))).toStrictEqual({ spec: value });
  });

  it("EJ1 reads integers outside of templates as numbers, like JSON.parse", () => {
    const value = parseExact(spec(`"n":9007199254740993`));
    expect(value).toMatchObject({ metadata: { generation: 9007199254740992 }, spec: { replicas: 3 } });
    const pod = `{"kind":"Pod","spec":{"terminationGracePeriodSeconds":9223372036854775807}}`;
    expect(parseExact(pod)).toStrictEqual(JSON.parse(pod));
  });

  it("EJ2 reads integers in a template's labels as numbers", () => {
    const text = object(`{"metadata":{"labels":{"a":9007199254740993},"generation":9007199254740993},"spec":{}}`);
    expect(templateOf(text)).toStrictEqual({ metadata: { labels: { a: 9007199254740992 }, generation: 9007199254740993n }, spec: {} });
  });

  it("EJ2 reads integers in templates that are already stripped as numbers", () => {
    expect(templateOf(object(`{"labels":{"a":9007199254740993},"digest":"d"}`))).toStrictEqual({
      labels: { a: 9007199254740992 },
      digest: "d",
    });
  });

  const one = spec(`"n":9223372036854775807`);
  it.each([
    { holder: "an object", text: one },
    { holder: "an object with an escaped name", text: one.replace('"template"', String.raw`"templ\u0061te"`) },
    { holder: "a watch event", text: `{"type":"ADDED","object":${one}}` },
    { holder: "a list", text: `{"metadata":{},"items":[{},${one},null]}` },
    { holder: "an audit event", text: `{"responseObject":${one},"requestObject":${one}}` },
    { holder: "a list of audit events", text: `{"items":[{"responseObject":${one}}]}` },
    { holder: "a list in a .kshrk archive", text: `{"response_body":{"items":[${one}]}}` },
  ])("finds the template in $holder", ({ text }) => {
    expect(exactText(parseExact(text)).match(/"n":\d+/g)).toEqual(text.match(/"n":\d+/g));
  });

  it("equals JSON.parse for any other JSON, including its errors", () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(parseExact(text)).toStrictEqual(JSON.parse(text));
      }),
    );
    expect(() => parseExact("{")).toThrow(SyntaxError);
  });
});

describe("exactText", () => {
  it("serializes the result of parseExact to the same text", () => {
    const text = spec(`"n":9223372036854775807,"list":[-9007199254740993,1]`).replace("9007199254740993}", "1}");
    expect(exactText(parseExact(text))).toBe(text);
  });

  it("equals JSON.stringify without bigints, including its errors", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(exactText(value)).toBe(JSON.stringify(value));
      }),
    );
    const round: Record<string, unknown> = {};
    round["round"] = round;
    expect(() => exactText(round)).toThrow(TypeError);
  });

  it("exactNumber changes only bigints when it is used as a JSON replacer", () => {
    expect(JSON.stringify([MAX, "9", 9], (_key, value: unknown) => exactNumber(value))).toBe(`[${MAX},"9",9]`);
  });
});
