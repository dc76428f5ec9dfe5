/** Citations of docs/ and of invariants, in code, tests and documents. */
import { globSync, readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { ambiguous, decisionsOf, invariantsOf, unresolved } from "../support/citations.ts";
import type { Definitions, TextFile } from "../support/citations.ts";
import { readSpecification, readSpecifications } from "../support/specifications.ts";

const FILES: readonly TextFile[] = globSync(["**/*.{ts,js,lua,py,go,c,yml,md}"], {
  exclude: ["**/node_modules/**", "**/dist/**", "**/.cache/**", "**/.serverless/**", "test/captures/**"],
})
  // Excludes this file, whose samples cite missing targets on purpose.
  .filter(
    (path) =>
      !["test/tooling/citations.test.ts", "test/support/citations.ts", "test/support/specifications.ts", "test/spec.ts"].includes(path),
  )
  .toSorted()
  .map((path) => ({ path, text: readFileSync(path, "utf8") }));

const DEFINITIONS: Definitions = {
  specifications: new Map((await readSpecifications()).map((specification) => [specification.name, specification])),
  decisions: decisionsOf(readFileSync("docs/internals/design.md", "utf8")),
  invariants: invariantsOf(FILES),
};

it("reads code, specifications, decisions and invariants", () => {
  expect(FILES.length).toBeGreaterThan(500);
  expect([...DEFINITIONS.specifications.keys()]).toEqual(["deployment", "informer", "node-agent", "replicaset"]);
  for (const { sections, rows } of DEFINITIONS.specifications.values()) {
    expect(sections.size).toBeGreaterThan(20);
    expect(rows.size).toBeGreaterThan(50);
  }
  expect(DEFINITIONS.decisions.size).toBeGreaterThan(15);
  expect(DEFINITIONS.invariants.size).toBeGreaterThan(150);
});

it("each invariant id has one definition", () => {
  expect(ambiguous(DEFINITIONS)).toEqual([]);
});

it("no specification has two sections of one number", () => {
  expect(
    [...DEFINITIONS.specifications.values()].flatMap(({ name, repeated }) => repeated.map((section) => `${name} §${section}`)),
  ).toEqual([]);
});

it("each citation has a target", () => {
  expect(FILES.flatMap((file) => unresolved(file, DEFINITIONS))).toEqual([]);
});

const SPECIFICATION =
  "## 1. One\n### 1.2 Two\n| # | rule |\n|---|---|\n| A1 | … |\n## 21. Test cases\n| id | name |\n|---|---|\n| T1 U | … |\n";
const SAMPLE: Definitions = {
  specifications: new Map([["informer", readSpecification("informer", SPECIFICATION)]]),
  decisions: new Set(["5"]),
  invariants: new Map([["LS1", ["shared/controllers/cache/watcher/lane-sender.ts:4"]]]),
};

const CITATIONS: readonly { readonly text: string; readonly line?: number; readonly want?: string }[] = [
  { text: "/** (informer §1.2) */" },
  { text: "/** (informer §1,\n * §1.2) */" },
  { text: "/** (informer §1.2). And what §1 says. */" },
  { text: "/** RFC 6455 §5.2 */" },
  { text: "/** A1, LS1 (design decision 5). Q1 is a queue. */" },
  { text: 'it("[informer T1] …")' },
  { text: "const A9 = 1;" },
  { text: "/** (informer §1.3) */", want: "informer §1.3: no such section in docs/internals/spec/informer.md" },
  { text: "/** (informer §1,\n * §3) */", line: 2, want: "informer §3: no such section in docs/internals/spec/informer.md" },
  { text: "/** (§1) */", want: "§1: of which specification?" },
  { text: "/** (kubelet §1) */", want: "§1: of which specification?" },
  { text: "/** (A2) */", want: "A2: no such row or rule in docs/internals/spec/informer.md" },
  { text: "/** (T2) */", want: "T2: of which specification?" },
  { text: "/** V8 */" },
  { text: 'it("holds (A1)")' },
  { text: 'it("holds (A2)")', want: "A2: no such row or rule in docs/internals/spec/informer.md" },
  { text: "/** (LS2) */", want: "LS2: nobody defines it" },
  { text: 'it("LS2 …")', want: "LS2: nobody defines it" },
  { text: 'it("[informer T1 T2] …")', want: "[informer T2]: no such row in docs/internals/spec/informer.md" },
  { text: 'it.each([{ id: "T3" }])("[informer $id] …")', want: "[informer T3]: no such row in docs/internals/spec/informer.md" },
  { text: "/** (design\n * decisions 5, 99) */", want: "design decision 99: no such decision in docs/internals/design.md" },
];

it.each(CITATIONS.map((row) => ({ ...row, found: row.want ?? "no problem" })))("finds in $text: $found", ({ text, line = 1, want }) => {
  expect(unresolved({ path: "cli/some.ts", text }, SAMPLE)).toEqual(want === undefined ? [] : [`cli/some.ts:${line}: ${want}`]);
});

it("reports the places of an id that two files define", () => {
  const [one, two] = ["shared/a.ts", "shared/b.ts"].map((path) => ({ path, text: "/**\n * LS1 something holds.\n */" }));
  const invariants = invariantsOf([one, two].filter((file) => file !== undefined));
  expect(ambiguous({ ...SAMPLE, invariants })).toEqual([
    "shared/a.ts:2, shared/b.ts:2: LS1: defined 2 times",
    "shared/a.ts, shared/b.ts: LS: one prefix, 2 files",
  ]);
});

it("reports a single letter at a file's head unless the letter is a rule of a specification", () => {
  const invariants = invariantsOf([{ path: "shared/a.ts", text: "/**\n * I1 something holds.\n * A1 as specified.\n */" }]);
  expect(ambiguous({ ...SAMPLE, invariants })).toEqual(["shared/a.ts:2: I1: an invariant's prefix has two letters"]);
});
