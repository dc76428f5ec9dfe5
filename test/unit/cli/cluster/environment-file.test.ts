/**
 * The watcher's environment file. Catches: a value that changes when it is read back, a file of `dev` that the doctor cannot read, and
 * secrets and queues in a region other than the watcher's.
 */
import { assert, constantFrom, property, string } from "fast-check";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { environmentFile, readEnvironmentFile, watchersEnvironment } from "../../../../cli/cluster/environment-file.ts";
import { UsageError } from "../../../../shared/base/usage-error.ts";
import { environmentRegion } from "../../../../shared/store/aws/aws-signature.ts";

const folder = mkdtempSync(join(tmpdir(), "deltaloop-env-"));
const file = join(folder, "env");
afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => vi.unstubAllEnvs());

it("round-trips any quotes, punctuation and spaces", () => {
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

it("reports a missing file as a usage error", () => {
  expect(() => readEnvironmentFile(join(folder, "no"))).toThrow(UsageError);
});

it.each([
  { name: "is used", text: "AWS_REGION=eu-central-1", own: undefined, want: "eu-central-1" },
  { name: "takes precedence over this process's region", text: "AWS_REGION=eu-central-1", own: "us-east-1", want: "eu-central-1" },
  { name: "is also read from AWS_DEFAULT_REGION", text: "AWS_DEFAULT_REGION=eu-central-1", own: "us-east-1", want: "eu-central-1" },
  { name: "defaults to this process's region", text: "DELTALOOP_MODE=act", own: "us-east-1", want: "us-east-1" },
])("[informer T115] the region of the watcher's environment $name", ({ text, own, want }) => {
  vi.stubEnv("AWS_DEFAULT_REGION", undefined);
  vi.stubEnv("AWS_REGION", own);
  writeFileSync(file, text);
  watchersEnvironment({ env: file });
  expect(environmentRegion()).toBe(want);
});

describe("without --env", () => {
  const FILES = [
    { name: "deltaloop-dev-older", mode: 0o700, ageSeconds: 60 },
    { name: "deltaloop-dev-newer", mode: 0o700, ageSeconds: 10 },
    { name: "deltaloop-dev-that-others-may-read", mode: 0o755, ageSeconds: 0 },
    { name: "deltaloop-redis-x", mode: 0o700, ageSeconds: 0 },
  ] as const;
  beforeEach(() => {
    vi.stubEnv("TMPDIR", mkdtempSync(join(folder, "tmp-")));
    vi.stubEnv("DELTALOOP_DEPLOYMENT", undefined);
    vi.spyOn(process.stderr, "write").mockReturnValue(true);
  });
  afterEach(() => vi.restoreAllMocks());

  function write({ name, mode, ageSeconds }: (typeof FILES)[number]): void {
    const path = join(tmpdir(), name);
    mkdirSync(path);
    writeFileSync(join(path, "env"), environmentFile({ DELTALOOP_DEPLOYMENT: name, KUBECONFIG: "/dev/config", KUBE_CONTEXT: "kind" }));
    chmodSync(path, mode);
    const at = Date.now() / 1000 - ageSeconds;
    utimesSync(join(path, "env"), at, at);
  }

  it("reads and reports the environment of the newest dev in a folder of this user only, with dev's access to the cluster", () => {
    FILES.forEach(write);
    const { variables, kube } = watchersEnvironment({});
    expect(variables["DELTALOOP_DEPLOYMENT"]).toBe("deltaloop-dev-newer");
    expect(kube).toEqual({ kubeconfig: "/dev/config", context: "kind" });
    expect(process.stderr.write).toHaveBeenCalledWith(
      `deltaloop: reading the environment of deltaloop dev, ${join(tmpdir(), "deltaloop-dev-newer", "env")}\n`,
    );
  });

  it("prefers the options' kubeconfig and context", () => {
    FILES.forEach(write);
    expect(watchersEnvironment({ context: "other" }).kube).toEqual({ kubeconfig: "/dev/config", context: "other" });
    expect(watchersEnvironment({ kubeconfig: "mine" }).kube).toEqual({ kubeconfig: "mine" });
  });

  it("reads the process's own environment if it names a deployment, without the user's KUBECONFIG", () => {
    FILES.forEach(write);
    vi.stubEnv("DELTALOOP_DEPLOYMENT", "prod");
    vi.stubEnv("KUBECONFIG", "/user/config");
    expect(watchersEnvironment({}).variables).toBe(process.env);
    expect(watchersEnvironment({})).not.toHaveProperty("kube");
  });

  it("without an environment, the error says to pass --env", () => {
    expect(() => watchersEnvironment({})).toThrow(/^DELTALOOP_DEPLOYMENT is not set, and no deltaloop dev runs here: .*--env FILE$/);
  });
});
