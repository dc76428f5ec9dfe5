/** The YAML reader, compared with sigs.k8s.io/yaml v1.6.0 on the same texts (yaml-vectors/main.go). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { parseYaml } from "../../shared/kube/yaml/yaml.ts";

type Vector = readonly [text: string, json: string | null];
const VECTORS = readFileSync(join(import.meta.dirname, "yaml-vectors/vectors.jsonl"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Vector);

/** Texts whose YAML syntax the two parsers read differently; no value changes its type. */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ["{a: -}\n", "a dash as a value in braces: refused, text in Go"],
  ["%x", "a directive without a document: empty, refused by Go"],
  ["{a: ?x}\n", "text that begins with ? in braces: text, refused by Go"],
  ["- \t1\n", "a tab after a dash: accepted, refused by Go"],
  ["- \t1\n- =\n- 0X1f\n", "the same"],
  ["a: &x {b: 1, d: 3}\nc:\n  d: 2\n  <<: *x\n", "a merge key after a key that it also has: the key wins; the later one in Go"],
  [
    "b:\n  b: 00\n  null: 1e\nyes: NaN\nb:\n  a b: 010\n  'q': 1.0\n  'q': !!float 1\n",
    "a null key in a value that a repeated key replaces: refused, dropped by Go",
  ],
  ['a: "x\ny"\n', "a quoted text that goes on at the margin: refused, text in Go"],
  ['"a":1\n', "a quoted key without a space: refused; Go reads the key alone"],
  ['{"a":1} x', "text behind the value: refused, not looked at by Go"],
  ...[`"a\\'b"`, `- {"\\'": 1}\n`].map((text) => [text, "an escaped apostrophe: refused, text in Go"] as const),
]);

describe("decodes YAML like the programs of Kubernetes", () => {
  it("the vectors contain every kind of result", () => {
    expect(VECTORS).toHaveLength(2_200);
    expect(VECTORS.filter(([, json]) => json === null).length).toBeGreaterThan(100);
  });

  it("returns the same result for every text, except the known differences", () => {
    const differing = VECTORS.filter(([text, json]) => made(text) !== (json === null ? null : sorted(JSON.parse(json))));
    expect(differing.map(([text]) => text).toSorted()).toEqual([...KNOWN.keys()].toSorted());
  });
});

function made(text: string): string | null {
  try {
    return sorted(parseYaml(text));
  } catch (error) {
    // The error contains only a position, because the text may hold a secret.
    expect(String(error)).toMatch(/^Error: not YAML: [a-z A-Z0-9.,]+$/);
    return null;
  }
}

/** JSON with sorted keys. */
function sorted(value: unknown): string {
  return JSON.stringify(value, (_key, each: unknown) =>
    typeof each === "object" && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}
