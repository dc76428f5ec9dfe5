/** Catches: text of a cluster's object that moves the cursor, colours or reorders output, or adds a line. */
import { expect, it } from "vitest";

import { describeTrace } from "../../../../cli/explain/describe.ts";
import { printable, printableJson } from "../../../../shared/base/output/printable.ts";

it.each([
  { name: "plain text in any script unchanged", text: "nginx:1.27 – größer, 東京 ✓", want: "nginx:1.27 – größer, 東京 ✓" },
  { name: "a colour escaped", text: "\x1b[31mred", want: "\\x1b[31mred" },
  { name: "a terminal title set by a one-byte escape, escaped", text: "\x9d0;title\x9c", want: "\\x9d0;title\\x9c" },
  { name: "a line break escaped", text: "a\nb\rc", want: "a\\nb\\x0dc" },
  {
    name: "invisible characters (joiners, zero-width spaces, marks) escaped",
    text: "a\u200b\u200c\u200d\u2060\ufeff\u00adb",
    want: "a\\u200b\\u200c\\u200d\\u2060\\ufeff\\xadb",
  },
  { name: "Unicode line and paragraph separators escaped", text: "a\u2028b\u2029c\x85d", want: "a\\u2028b\\u2029c\\x85d" },
  { name: "a tag character and half a surrogate pair escaped", text: "a\u{e0041}\ud83d", want: "a\\u{e0041}\\ud83d" },
  { name: "a character of two surrogates unchanged", text: "✓ 🚢", want: "✓ 🚢" },
  { name: "a right-to-left override escaped", text: "a\u202egpj.exe", want: "a\\u202egpj.exe" },
])("prints $name", ({ text, want }) => {
  expect(printable(text)).toBe(want);
});

it("escapes control characters in JSON output without changing the parsed value", () => {
  const value = { name: "\x1b[31m\x9d\u202e\x7f\u200b\u{e0041}🚢" };
  expect(printableJson(value)).toBe('{"name":"\\u001b[31m\\u009d\\u202e\\u007f\\u200b\\udb40\\udc41🚢"}');
  expect(JSON.parse(printableJson(value))).toEqual(value);
});

it("prints a decision about an object whose name has control characters in one plain line", () => {
  const owner = { resource: "replicasets", namespace: "a", name: "b", uid: "o" } as const;
  const write = {
    kind: "DeletePod",
    owner,
    name: "p\x1b[2J\n",
    uid: "u",
    resourceVersion: "1",
    size: { generation: 1, replicas: 0 },
  } as const;
  const line = {
    kind: "decided",
    controller: "replicaset",
    key: "a/b",
    write,
  } as const;
  expect(describeTrace(line)).toBe("delete pod p\\x1b[2J\\n");
});
