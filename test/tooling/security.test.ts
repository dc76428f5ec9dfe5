/** docs/internals/threat-model.md and the tests that it cites. */
import { readdir, readFile } from "node:fs/promises";

import { expect, it } from "vitest";

const DOCUMENT = await readFile("docs/internals/threat-model.md", "utf8");
const CITED = new Set([...DOCUMENT.matchAll(/`(test\/[^`]+\.ts)`/g)].map(([, path = ""]) => path));
/** Citations as `path`: "part of a test's title", as the file spells it. A file of attacks has one subject and is cited as a whole. */
const NAMED = [...DOCUMENT.matchAll(/`(test\/[^`]+\.ts)`: "(.+?)"(?= \||,|\.| and|$)/gm)].map(([, path = "", name = ""]) => ({
  path,
  name,
}));

it("reads the tests that the threat model cites", () => {
  expect(NAMED.length).toBeGreaterThan(25);
});

it.each(NAMED)("$path has the test “$name”", async ({ path, name }) => {
  expect(await readFile(path, "utf8")).toContain(name);
});

it.each([...CITED])("the cited file %s exists", async (path) => {
  expect(await readFile(path, "utf8")).toContain("it");
});

it("every threat of a table has a test", () => {
  const rows = DOCUMENT.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| Threat"));
  expect(rows.filter((row) => !/`test\/[^`]+\.ts`/.test(row))).toEqual([]);
  expect(rows.length).toBeGreaterThan(20);
});

it("every attack is in the document", async () => {
  const files = (await readdir("test/attacks")).filter((file) => file.endsWith(".test.ts"));
  expect(files.filter((file) => !DOCUMENT.includes(`test/attacks/${file}`))).toEqual([]);
});
