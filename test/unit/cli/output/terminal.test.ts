/** Catches: a line that is truncated without a mark, and text in YAML that a terminal would interpret. */
import { expect, it } from "vitest";
import { parse } from "yaml";

import { parseYaml } from "../../../../shared/kube/yaml/yaml.ts";
import { objectText } from "../../../../cli/output/output-option.ts";
import { shortened } from "../../../../cli/output/terminal.ts";

it.each([
  { text: "abc", width: 3, want: "abc" },
  { text: "abcd", width: 3, want: "ab…" },
  { text: "●●●●", width: 2, want: "●…" },
])("shortens $text to $width columns", ({ text, width, want }) => {
  expect(shortened(text, width)).toBe(want);
});

it("contains no terminal control character in YAML, and keeps the value", () => {
  const value = { name: "\x1b[31m\x9d\u202e\x7f\u200b\u{e0041}🚢\nkind: x", absent: undefined, list: [1, "yes", null], "a\u202eb": true };
  const text = objectText(value, "yaml");
  expect(text).not.toMatch(/[^\P{Cc}\n]|\p{Cf}/u);
  expect(parse(text)).toMatchObject({ name: value.name, list: value.list });
});

it("writes YAML with the same values for YAML 1.1 parsers, such as kubectl's and Go's", () => {
  const value = {
    a: "yes",
    b: "12:30",
    c: "0123",
    d: "1e3",
    e: "null",
    f: "2026-01-01",
    g: "~",
    h: "0o7",
    i: "a: b",
    j: "line\nline",
    yes: 1,
    on: 2,
    "12:30": 3,
  };
  expect(parseYaml(objectText(value, "yaml"))).toEqual(value);
});
