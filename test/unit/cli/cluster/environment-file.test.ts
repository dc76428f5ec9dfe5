/**
 * Catches a value that comes back as another one, an environment that the doctor of a `dev` could not read, and secrets and queues that are
 * looked for in another region than the watcher's.
 */
import { assert, constantFrom, property, string } from "fast-check";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, afterEach, expect, it, vi } from "vitest";

import { environmentFile, readEnvironmentFile, watchersEnvironment } from "../../../../cli/cluster/environment-file.ts";
import { UsageError } from "../../../../shared/base/usage-error.ts";
import { environmentRegion } from "../../../../shared/store/aws/aws-signature.ts";

const folder = mkdtempSync(join(tmpdir(), "deltaloop-env-"));
const file = join(folder, "env");
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

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

it.each([
  { name: "is asked", text: "AWS_REGION=eu-central-1", own: undefined, want: "eu-central-1" },
  { name: "goes before this process's own", text: "AWS_REGION=eu-central-1", own: "us-east-1", want: "eu-central-1" },
  { name: "by its other name, too", text: "AWS_DEFAULT_REGION=eu-central-1", own: "us-east-1", want: "eu-central-1" },
  { name: "that is not told is this process's", text: "DELTALOOP_MODE=act", own: "us-east-1", want: "us-east-1" },
])("[informer T115] the region of the watcher's environment $name", ({ text, own, want }) => {
  vi.stubEnv("AWS_DEFAULT_REGION", undefined);
  vi.stubEnv("AWS_REGION", own);
  writeFileSync(file, text);
  watchersEnvironment(file);
  expect(environmentRegion()).toBe(want);
});
