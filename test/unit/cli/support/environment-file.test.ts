/** Catches a value that comes back as another one, and an environment that the doctor of a `dev` could not read. */
import { assert, constantFrom, property, string } from "fast-check";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, expect, it } from "vitest";

import { environmentFile, readEnvironmentFile } from "../../../../cli/support/environment-file.ts";
import { UsageError } from "../../../../cli/support/usage-error.ts";

const folder = mkdtempSync(join(tmpdir(), "deltaloop-env-"));
const file = join(folder, "env");
afterAll(() => rmSync(folder, { recursive: true }));

it("what is written is read again, whatever quote, mark or space is in it", () => {
  const value = string({ unit: constantFrom(..."abcn =#$\\'\"`:/".split("")), maxLength: 20 }).filter(
    (text) => !(text.includes("'") && text.includes("`")),
  );
  assert(
    property(value, (text) => {
      const variables = { DELTALOOP_A: text, DELTALOOP_B: "redis://:p#w@host:6379/0" };
      writeFileSync(file, environmentFile(variables));
      expect(readEnvironmentFile(file)).toEqual(variables);
    }),
  );
});

it("a file that is not there is wrong use", () => {
  expect(() => readEnvironmentFile(join(folder, "no"))).toThrow(UsageError);
});
