/** Label selectors: matching, compilation and the text for `/scale`. */
import { describe, expect, it } from "vitest";
import {
  compileSelector,
  formatSelector,
  matches,
  type Selector,
  selectorOf,
  selectsEverything,
} from "../../../shared/kube/selectors/selector.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { LabelSelector, Labels } from "../../../shared/kube/objects/wire.ts";

function compiled(selector: LabelSelector | undefined): Selector {
  const result = compileSelector(selector);
  if (result.kind === "Invalid") throw new Error(result.message);
  return result;
}

const expression = (key: string, operator: string, ...values: string[]): LabelSelector => ({
  matchExpressions: [{ key, operator, values }],
});

describe("matches", () => {
  it.each<{ name: string; selector: LabelSelector | undefined; labels: Labels | undefined; want: boolean }>([
    { name: "an absent selector matches nothing", selector: undefined, labels: {}, want: false },
    { name: "an empty selector matches everything", selector: {}, labels: { a: "1" }, want: true },
    {
      name: "an empty selector matches an object without labels",
      selector: { matchLabels: {}, matchExpressions: [] },
      labels: undefined,
      want: true,
    },
    { name: "every label must be present", selector: { matchLabels: { a: "1", b: "2" } }, labels: { a: "1", b: "2", c: "3" }, want: true },
    { name: "one label is missing", selector: { matchLabels: { a: "1", b: "2" } }, labels: { a: "1" }, want: false },
    { name: "one label differs", selector: { matchLabels: { a: "1" } }, labels: { a: "2" }, want: false },
    { name: "an empty value is a value", selector: { matchLabels: { a: "" } }, labels: { a: "" }, want: true },
    { name: "an empty value is not an absent label", selector: { matchLabels: { a: "" } }, labels: {}, want: false },
    { name: "In: one of the values", selector: expression("a", "In", "1", "2"), labels: { a: "2" }, want: true },
    { name: "In: another value", selector: expression("a", "In", "1", "2"), labels: { a: "3" }, want: false },
    { name: "In: absent", selector: expression("a", "In", "1"), labels: undefined, want: false },
    { name: "NotIn: one of the values", selector: expression("a", "NotIn", "1"), labels: { a: "1" }, want: false },
    { name: "NotIn: another value", selector: expression("a", "NotIn", "1"), labels: { a: "2" }, want: true },
    { name: "NotIn: absent", selector: expression("a", "NotIn", "1"), labels: {}, want: true },
    { name: "Exists", selector: expression("a", "Exists"), labels: { a: "" }, want: true },
    { name: "Exists: absent", selector: expression("a", "Exists"), labels: { b: "" }, want: false },
    { name: "DoesNotExist", selector: expression("a", "DoesNotExist"), labels: { b: "" }, want: true },
    { name: "DoesNotExist: present", selector: expression("a", "DoesNotExist"), labels: { a: "" }, want: false },
    {
      name: "labels and expressions must both hold",
      selector: { matchLabels: { a: "1" }, ...expression("b", "Exists") },
      labels: { a: "1" },
      want: false,
    },
    { name: "ignores members of Object.prototype", selector: expression("constructor", "Exists"), labels: {}, want: false },
  ])("matches: $name", ({ selector, labels, want }) => {
    expect(matches(compiled(selector), labels)).toBe(want);
  });
});

describe("a selector of many requirements", () => {
  const KEYS = ["a", "b", "constructor", "toString"];
  const VALUES = ["x", "y", "z"];

  it("equals matching each requirement", () => {
    const random = createSeededRandom(11);
    const oneOf = <T>(list: readonly T[]): T => list[Math.floor(random.next() * list.length)] as T; // the list is not empty
    let matched = 0;
    for (let round = 0; round < 3_000; round++) {
      // Random labels never match forty requirements. So half of the rounds use requirements that all match, and the others requirements of
      // which one does not.
      const labels: Labels = Object.fromEntries(KEYS.filter(() => random.next() < 0.6).map((key) => [key, oneOf(VALUES)]));
      const all = Array.from({ length: 60 }, () => requirement(oneOf(KEYS), oneOf(["In", "NotIn", "Exists", "DoesNotExist"]), oneOf));
      const alone = (each: NonNullable<LabelSelector["matchExpressions"]>[number]): boolean =>
        matches(compileSelector({ matchExpressions: [each] }) as Selector, labels);
      const [held, failed] = [all.filter(alone).slice(0, 40), all.filter((each) => !alone(each))];
      const expressions = round % 2 === 0 ? held : round % 4 === 1 ? [...failed.slice(0, 1), ...held] : [...held, ...failed.slice(0, 1)];
      const want = expressions.every(alone);
      if (want) matched++;
      expect(matches(compileSelector({ matchExpressions: expressions }) as Selector, labels), JSON.stringify({ expressions, labels })).toBe(
        want,
      );
    }
    expect(matched).toBeGreaterThan(1_000);
  });

  function requirement(key: string, operator: string, oneOf: <T>(list: readonly T[]) => T) {
    return operator.endsWith("In") ? { key, operator, values: [oneOf(VALUES), oneOf(VALUES)] } : { key, operator };
  }

  it("a selector of many requirements is evaluated by looking up only the object's labels", () => {
    const expressions = Array.from({ length: 16_000 }, (_, i) => ({ key: `k${i}`, operator: "DoesNotExist" }));
    const selector = compileSelector({ matchExpressions: expressions }) as Selector;
    const asked: string[] = [];
    const labels = new Proxy({ app: "x" } as Labels, {
      getOwnPropertyDescriptor: (target, key) => (asked.push(String(key)), Reflect.getOwnPropertyDescriptor(target, key)),
    });
    expect(matches(selector, labels)).toBe(true);
    expect(new Set(asked)).toEqual(new Set(["app"]));
    expect(matches(selector, { app: "x", k15999: "y" })).toBe(false);
  });

  it("compiles a selector once per object", () => {
    let compiled = 0;
    const selector = (): LabelSelector => ({ matchLabels: { n: String(++compiled) } });
    const [a, b] = [{}, {}];
    expect(
      [selectorOf(a, selector), selectorOf(a, selector), selectorOf(b, selector)].map((each) => formatSelector(each as Selector)),
    ).toEqual(["n=1", "n=1", "n=2"]);
  });
});

describe("compileSelector", () => {
  it.each<{ name: string; selector: LabelSelector; message: string }>([
    { name: "an unknown operator", selector: expression("a", "Gt", "1"), message: '"Gt" is not a valid label selector operator' },
    {
      name: "an operator named like a member of Object.prototype",
      selector: expression("a", "constructor"),
      message: '"constructor" is not a valid label selector operator',
    },
    {
      name: "In without values",
      selector: expression("a", "In"),
      message: "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
    },
    {
      name: "Exists with values",
      selector: expression("a", "Exists", "1"),
      message: 'values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
    },
    { name: "an invalid key", selector: { matchLabels: { "-a": "1" } }, message: 'key: Invalid value: "-a": not a valid label key' },
    {
      name: "a key with two slashes",
      selector: { matchLabels: { "a/b/c": "1" } },
      message: 'key: Invalid value: "a/b/c": not a valid label key',
    },
    {
      name: "an invalid value",
      selector: { matchLabels: { a: "x y" } },
      message: 'values[0][a]: Invalid value: "x y": not a valid label value',
    },
    {
      name: "two problems in one requirement",
      selector: expression("-a", "NotIn"),
      message: `[key: Invalid value: "-a": not a valid label key, values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty]`,
    },
    {
      name: "the first of two invalid requirements",
      selector: { matchLabels: { "-a": "1" }, ...expression("b", "Gt") },
      message: 'key: Invalid value: "-a": not a valid label key',
    },
  ])("rejects $name", ({ selector, message }) => {
    expect(compileSelector(selector)).toEqual({ kind: "Invalid", message });
  });

  it.each([
    ["a".repeat(63), true],
    ["a".repeat(64), false],
    [`${"a".repeat(253)}/a`, true],
    [`${"a".repeat(254)}/a`, false],
    ["x.io/A_b.c-d", true],
    ["X.io/a", false],
    ["/a", false],
    ["", false],
  ])("the key '%s' is valid: %s", (key, valid) => {
    expect(compileSelector({ matchLabels: { [key]: "1" } }).kind === "Requirements").toBe(valid);
  });

  it.each([
    ["", true],
    ["a".repeat(63), true],
    ["a".repeat(64), false],
    ["A_b.c-d", true],
    ["a-", false],
  ])("the value %j is valid: %s", (value, valid) => {
    expect(compileSelector(expression("a", "In", "1", value)).kind === "Requirements").toBe(valid);
  });

  it("distinguishes a selector that matches everything from one that matches nothing", () => {
    expect(selectsEverything(compiled({}))).toBe(true);
    expect(selectsEverything(compiled(undefined))).toBe(false);
    expect(selectsEverything(compiled({ matchLabels: { a: "1" } }))).toBe(false);
  });
});

describe("formatSelector", () => {
  it.each<{ selector: LabelSelector | undefined; text: string }>([
    { selector: undefined, text: "" },
    { selector: {}, text: "" },
    { selector: { matchLabels: { b: "2", a: "1" } }, text: "a=1,b=2" },
    { selector: expression("a", "In", "2", "1"), text: "a in (1,2)" },
    { selector: expression("a", "In", "1"), text: "a in (1)" },
    { selector: expression("a", "NotIn", "1"), text: "a notin (1)" },
    { selector: expression("a", "Exists"), text: "a" },
    { selector: expression("a", "DoesNotExist"), text: "!a" },
    { selector: { matchLabels: { app: "web" }, ...expression("B", "Exists") }, text: "B,app=web" },
    { selector: { matchLabels: { a: "b", C: "d" }, ...expression("a", "NotIn", "z", "b") }, text: "C=d,a=b,a notin (b,z)" },
  ])("formats a selector as '$text'", ({ selector, text }) => {
    expect(formatSelector(compiled(selector))).toBe(text);
  });
});
