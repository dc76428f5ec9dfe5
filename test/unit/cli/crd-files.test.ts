/** `dev FILE… --crds PATH`: the CRDs that are read, and the errors in the files. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { readCrds } from "../../../cli/own/crd-files.ts";

const folder = mkdtempSync(join(tmpdir(), "deltaloop-crds-"));
afterAll(() => rmSync(folder, { recursive: true }));
const write = (name: string, text: string): string => {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
};
const crd = (name: string): string =>
  `apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: ${name}\nspec:\n  group: x\n`;

it("reads the CRDs from a file with several documents, and ignores other kinds and empty documents", () => {
  const text = `# a product\n---\n${crd("as.x")}---\n---\nkind: Deployment\nmetadata: { name: d }\n--- # the second\n${crd("bs.x")}`;
  const file = write("many.yaml", text);
  expect(readCrds([file]).map(({ name, file: of }) => [name, of])).toEqual([
    ["as.x", file],
    ["bs.x", file],
  ]);
  expect(readCrds([file])[0]?.crd).toMatchObject({ spec: { group: "x" } });
});

it("reads the CRDs from a List in JSON, as `kubectl get crd -o json` prints", () => {
  const items = ["as.x", "bs.x"].map((name) => ({ kind: "CustomResourceDefinition", metadata: { name } }));
  const file = write("list.json", JSON.stringify({ kind: "List", items: [...items, { kind: "Service", metadata: { name: "s" } }] }));
  expect(readCrds([file]).map(({ name }) => name)).toEqual(["as.x", "bs.x"]);
});

it("reads the manifests of a folder in the order of their names, and no other files", () => {
  const sub = join(folder, "all");
  mkdirSync(sub);
  for (const name of ["b.yml", "a.yaml"]) writeFileSync(join(sub, name), crd(`${name[0]}s.x`));
  writeFileSync(join(sub, "README.md"), "kind: {");
  expect(readCrds([sub]).map(({ name }) => name)).toEqual(["as.x", "bs.x"]);
});

it.each([
  { what: "a path that does not exist", path: () => join(folder, "none.yaml"), says: /^--crds .*none\.yaml: no such file or folder$/ },
  {
    what: "a file without CRDs",
    path: () => write("d.yaml", "kind: Deployment\n"),
    says: /^--crds .*d\.yaml contains no CustomResourceDefinition: name the file that defines the kinds$/,
  },
  {
    what: "a document that is not YAML",
    path: () => write("bad.yaml", `${crd("as.x")}---\na: [\n`),
    says: /^--crds .*bad\.yaml, document 2: not YAML: .* at line \d+, column \d+$/,
  },
])("throws a one-line error for $what", ({ path, says }) => {
  expect(() => readCrds([path()])).toThrow(says);
});
