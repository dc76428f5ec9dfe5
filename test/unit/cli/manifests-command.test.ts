/**
 * `deltaloop manifests` as a process. Catches: an error of more than one line for a file that cannot be loaded, and code that never ends.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";

const ROOT = process.cwd();
let folder = "";
// below the checkout, so that the files find the package
beforeAll(() => (folder = mkdtempSync(join(ROOT, "node_modules", ".cache-manifests-"))));
afterAll(() => rmSync(folder, { recursive: true }));

function run(...files: readonly string[]) {
  return spawnSync(process.execPath, ["cli/main.ts", "manifests", ...files], { cwd: ROOT, encoding: "utf8" });
}

it("prints only the YAML to standard output, for any number of files", () => {
  const files = Array.from({ length: 12 }, (_, i) => {
    const path = join(folder, `many-${i}.mjs`);
    writeFileSync(path, `${HEAD}export const a = defineController({ name: "a${i}", for: Pod, sync: () => undefined });\n`);
    return path;
  });
  expect(run(...files)).toMatchObject({ status: 0, stderr: "" });
});

it("prints one CRD, the namespace, and the permissions of each controller", () => {
  const { status, stdout, stderr } = run("examples/website/website.ts", "examples/team-guard/team-guard.ts");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as { readonly kind: string });
  expect(documents.map(({ kind }) => kind)).toEqual([
    "CustomResourceDefinition",
    "Namespace",
    ...["website", "team-guard"].flatMap(() => [
      "ServiceAccount",
      ...["ClusterRole", "ClusterRoleBinding"],
      ...["ClusterRole", "ClusterRoleBinding"],
    ]),
  ]);
});

const HEAD = 'import { defineController } from "@deltaloop/sdk";\nimport { Pod } from "@deltaloop/sdk/kinds";\n';

it.each([
  { what: "no controller", text: "export const a = 1;\n", want: "c.js: exports no controller: export what defineController returns" },
  { what: "a syntax error in line 3", text: `${HEAD}const a = ;\n`, want: "c.js:3: does not load: " },
  { what: "an exception in line 4", text: `${HEAD}\nthrow new Error("no");\n`, want: "c.js:4:7: does not load: no" },
  { what: "an endless loop", text: "for (;;) {}\n", want: "c.js: does not load within 5 s" },
  {
    what: "an await that never ends",
    text: "setInterval(() => 0, 1000);\nawait new Promise(() => 0);\n",
    want: "c.js: does not load within 5 s",
  },
  { what: "an exit", text: "process.exit(0);\n", want: "c.js: exited the process while it loaded" },
])("prints a one-line error for a file with $what", ({ text, want }) => {
  // Node.js does not strip types below node_modules
  const file = join(folder, "c.js");
  writeFileSync(file, text);
  const { status, stdout, stderr } = run(file);
  expect(stderr).toContain(want);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
});

it("prints the file's standard output to stderr, and all mistakes in its definitions", () => {
  const file = join(folder, "d.js");
  const defined = (name: string) => `export const ${name} = defineController({ name: "${name.toUpperCase()}", for: Pod, sync() {} });\n`;
  writeFileSync(file, `${HEAD}console.log("loaded");\n${defined("a")}${defined("b")}`);
  const { status, stdout, stderr } = run(file);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(/loaded\n/);
  expect(stderr.match(/"[AB]": `name` must be a DNS label/g)).toHaveLength(2);
});

it("rejects a file that does not exist", () => {
  expect(run("no.ts")).toMatchObject({ status: 2, stderr: expect.stringContaining("no.ts: there is no such file") as string });
});
