/** Secrets that are refreshed. */
import { beforeEach, describe, expect, it as base } from "vitest";

import { ConfigurationError } from "../../../shared/controllers/lambda/configuration.ts";
import { liveConfiguration } from "../../../shared/controllers/lambda/live-configuration.ts";
import { SecretError } from "../../../shared/store/ports/secrets.ts";
import { SECRET_MS_MAX } from "../../../shared/base/times.ts";
import { recordingLog } from "../recording-log.ts";

const it = base.extend("configuration", async () => await live());

const ENVIRONMENT = {
  DELTALOOP_DEPLOYMENT: "prod",
  DELTALOOP_CLUSTER: "5d3f00aa11bb",
  DELTALOOP_MAC_KEY_SECRET: "mac",
  DELTALOOP_DIGEST_KEY_SECRET: "digest",
  DELTALOOP_KUBE_SECRET: "kube",
  DELTALOOP_REDIS_URL: "redis://127.0.0.1:1",
  DELTALOOP_KUBE_SERVER: "https://127.0.0.1:1",
  DELTALOOP_DELTAS_URL: "http://127.0.0.1:1/deltas.fifo",
  DELTALOOP_DOORBELLS_DEPLOYMENT_URL: "http://127.0.0.1:1/d",
  DELTALOOP_DOORBELLS_REPLICASET_URL: "http://127.0.0.1:1/rs",
  DELTALOOP_DOORBELLS_REPLICATIONCONTROLLER_URL: "http://127.0.0.1:1/rc",
};
const OLD = "CANARY-old-key-of-16";
const NEW = "CANARY-new-key-of-16";

let nowMs: number;
let values: Record<string, string>;
let reads: (readonly string[])[];
/** The error of the next reads. */
let fails: Error | undefined;
let log = recordingLog();

beforeEach(() => {
  nowMs = 1_000_000;
  values = { mac: OLD, digest: "CANARY-digest-of-16", kube: "CANARY-token" };
  reads = [];
  fails = undefined;
  log = recordingLog();
});

const live = (environment: Readonly<Record<string, string>> = ENVIRONMENT) =>
  liveConfiguration(environment, {
    secrets: () => ({
      async read(references) {
        reads.push(references);
        await Promise.resolve();
        if (fails) throw fails;
        return new Map(references.map((reference) => [reference, values[reference] ?? ""]));
      },
    }),
    now: () => nowMs,
    log,
  });

describe("the first read", () => {
  it("reads all referenced secrets in parallel", async () => {
    const { current } = await live();
    expect(reads).toEqual([["mac", "digest", "kube"]]);
    expect([current.macKeys, current.digestKey, current.kube.token]).toEqual([[OLD], "CANARY-digest-of-16", "CANARY-token"]);
  });

  it("LC4 the first read fails with the secret store's error", async () => {
    fails = new SecretError(["mac: is not there"]);
    await expect(live()).rejects.toThrow("mac: is not there");
  });

  it.each([
    {
      name: "a MAC key that is too short",
      mac: "CANARY",
      want: "DELTALOOP_MAC_KEY_SECRET: its value, as DELTALOOP_MAC_KEY: each key must have at least 16 characters",
    },
    {
      name: "a MAC key that equals the digest key",
      mac: "CANARY-digest-of-16",
      want: "DELTALOOP_MAC_KEY_SECRET: its value, as DELTALOOP_MAC_KEY: must differ from DELTALOOP_DIGEST_KEY, so that a process that compares digests cannot forge rows",
    },
  ])("LC4 LC5 reports the secret with an invalid value: $name", async ({ mac, want }) => {
    values["mac"] = mac;
    const error: unknown = await live().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ConfigurationError);
    expect((error as ConfigurationError).problems).toEqual([want]);
  });

  it("reads no secret if the environment references none", async () => {
    const { DELTALOOP_MAC_KEY_SECRET: _mac, DELTALOOP_DIGEST_KEY_SECRET: _digest, DELTALOOP_KUBE_SECRET: _kube, ...rest } = ENVIRONMENT;
    const fixed = await live({ ...rest, DELTALOOP_MAC_KEY: OLD, DELTALOOP_DIGEST_KEY: "a digest key of 16" });
    nowMs += SECRET_MS_MAX * 2;
    expect([(await fixed.fresh()).macKeys, await fixed.renew("kube"), reads]).toEqual([[OLD], false, []]);
  });
});

describe("fresh", () => {
  it("LC2 reads the secrets again when their values are five minutes old, and not before", async ({ configuration }) => {
    values["mac"] = `${OLD},${NEW}`;
    nowMs += SECRET_MS_MAX - 1;
    expect((await configuration.fresh()).macKeys).toEqual([OLD]);
    nowMs += 1;
    expect((await configuration.fresh()).macKeys).toEqual([OLD, NEW]);
    await configuration.fresh();
    expect(reads).toHaveLength(2);
  });

  it("LC2 reads the secrets sooner if the environment sets a shorter interval", async () => {
    const configuration = await live({ ...ENVIRONMENT, DELTALOOP_SECRETS_SECONDS: "5" });
    values["mac"] = NEW;
    for (const [afterMs, want] of [
      [4_999, OLD],
      [1, NEW],
    ] as const) {
      nowMs += afterMs;
      expect((await configuration.fresh()).macKeys).toEqual([want]);
    }
    values["mac"] = OLD;
    nowMs += 5_000;
    expect((await configuration.fresh()).macKeys).toEqual([OLD]);
  });

  it("LC1 shares one read among concurrent callers", async ({ configuration }) => {
    nowMs += SECRET_MS_MAX;
    await Promise.all([configuration.fresh(), configuration.fresh(), configuration.renew("kube"), configuration.renew("macKey")]);
    expect(reads).toHaveLength(2);
  });

  it("LC2 keeps the values while the secret store is unavailable, and retries after ten seconds", async ({ configuration }) => {
    nowMs += SECRET_MS_MAX;
    fails = new SecretError(["mac: could not be reached (ETIMEDOUT)"]);
    for (let i = 0; i < 3; i++) expect((await configuration.fresh()).macKeys).toEqual([OLD]);
    expect(reads).toHaveLength(2);
    nowMs += 10_000;
    fails = undefined;
    values["mac"] = NEW;
    expect((await configuration.fresh()).macKeys).toEqual([NEW]);
  });

  it.each([
    { name: "a value of an invalid format", mac: "CANARY" },
    { name: "an empty value", mac: "" },
  ])("LC4 LC5 does not use an invalid value, and reports the secret without quoting the value: $name", async ({ mac }) => {
    const configuration = await live();
    values["mac"] = mac;
    nowMs += SECRET_MS_MAX;
    expect((await configuration.fresh()).macKeys).toEqual([OLD]);
    expect(log.lines.map(({ level }) => level)).toEqual(["warn"]);
    expect(JSON.stringify(log.lines)).not.toContain("CANARY");
  });
});

describe("renew", () => {
  it("LC3 reads immediately and returns whether any value changed, without the values", async ({ configuration }) => {
    expect(await configuration.renew("kube")).toBe(false);
    nowMs += 15_000;
    values["kube"] = "CANARY-next";
    expect([await configuration.renew("kube"), configuration.current.kube.token]).toEqual([true, "CANARY-next"]);
    expect(log.lines.map(({ message, fields }) => [message, fields])).toEqual([
      ["secrets have changed", { secrets: "DELTALOOP_KUBE_SECRET" }],
    ]);
  });

  it("LC3 a burst of forged messages causes at most one read per minute, and does not delay a read for the kube secret", async ({
    configuration,
  }) => {
    for (let second = 0; second < 600; second++) {
      for (let i = 0; i < 50; i++) await configuration.renew("macKey");
      nowMs += 1_000;
    }
    expect(reads.length).toBeLessThanOrEqual(1 + 10);
    const before = reads.length;
    await configuration.renew("kube");
    expect(reads).toHaveLength(before + 1);
  });
});
