/**
 * Would catch: a copy of the project (mutants, the upgrade drill, the packaged build) that runs the checkout's packages instead of its own.
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { linkModules } from "../support/copied-modules.ts";

const ROOT = process.cwd();
const MARKER = "planted in the copy";
let copy: string;

beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), "deltaloop-copy-"));
  for (const part of ["package.json", "shared/base", "shared/kube"]) cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  mkdirSync(join(copy, "cli"));
  writeFileSync(join(copy, "shared/base/version.ts"), `export const VERSION = ${JSON.stringify(MARKER)};\n`);
  linkModules(ROOT, copy);
});
afterAll(() => rmSync(copy, { recursive: true, force: true }));

it.each([
  { who: "a file outside of the packages", file: "cli/probe.ts" },
  { who: "another package", file: "shared/kube/probe.ts" },
])("in a copy of the repository, $who imports the copied package", ({ file }) => {
  writeFileSync(join(copy, file), 'import { VERSION } from "@deltaloop/base";\nprocess.stdout.write(VERSION);\n');
  expect(execFileSync(process.execPath, [join(copy, file)], { encoding: "utf8" })).toBe(MARKER);
});

it("a copy of the repository still imports npm packages", () => {
  const code = 'process.stdout.write(typeof (await import("valibot")).object);';
  expect(execFileSync(process.execPath, ["--input-type=module", "--eval", code], { cwd: copy, encoding: "utf8" })).toBe("function");
});
