/** The list of mistakes that `npm run mutants` plants. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { MUTANTS } from "../mutants/decisions.ts";
import { IMPORT_MUTANTS } from "../mutants/imports.ts";
import { RELEASE_MUTANTS } from "../mutants/releases.ts";

it.each([...MUTANTS, ...RELEASE_MUTANTS, ...IMPORT_MUTANTS])(
  "mutant “$what”: the text to replace occurs exactly once in $file",
  ({ file, from, to }) => {
    const text = readFileSync(join(import.meta.dirname, "../../shared", file), "utf8");
    expect(text.split(from).length - 1).toBe(1);
    expect(text.replace(from, () => to)).not.toBe(text);
  },
);

it.each(MUTANTS)("mutant “$what” violates $rule, a section of its controller's specification", ({ file, rule }) => {
  const [, spec = "", section = ""] = /^(deployment|replicaset) §(\d+(?:\.\d+)?)$/.exec(rule) ?? [];
  const text = readFileSync(join(import.meta.dirname, `../../docs/internals/spec/${spec}.md`), "utf8");
  expect(text).toMatch(new RegExp(`^#{2,3} ${section.replace(".", "\\.")}\\.? `, "m"));
  expect(file.startsWith(`controllers/${spec}/`)).toBe(true);
});
