/** Configuration from the environment, with all errors in one report. */
import { expect, it } from "vitest";

import { ConfigurationError, parseConfiguration } from "../../../shared/controllers/lambda/configuration.ts";

const GOOD = {
  PATH: "/bin",
  DELTALOOP_DEPLOYMENT: "prod",
  DELTALOOP_CLUSTER: "5d3f00aa11bb",
  DELTALOOP_DIGEST_KEY: "0123456789abcdef",
  DELTALOOP_MAC_KEY: "fedcba9876543210",
  DELTALOOP_REDIS_URL: "rediss://cache:6379",
  DELTALOOP_KUBE_SERVER: "https://k8s:6443",
  DELTALOOP_DELTAS_URL: "https://sqs/1/deltas.fifo",
  DELTALOOP_DOORBELLS_DEPLOYMENT_URL: "https://sqs/1/deployment",
  DELTALOOP_DOORBELLS_REPLICASET_URL: "https://sqs/1/replicaset",
  DELTALOOP_DOORBELLS_REPLICATIONCONTROLLER_URL: "https://sqs/1/replicationcontroller",
};

function problems(environment: Readonly<Record<string, string | undefined>>): readonly string[] {
  try {
    parseConfiguration(environment);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  return [];
}

it("reads an environment with all required settings, and uses defaults for the others", () => {
  expect(
    parseConfiguration({ ...GOOD, DELTALOOP_KUBE_CA: Buffer.from("-----BEGIN x").toString("base64"), DELTALOOP_KUBE_TOKEN: "" }),
  ).toEqual({
    deployment: "prod",
    cluster: "5d3f00aa11bb",
    mode: "shadow",
    guard: "on",
    kubernetes: "supported",
    digestKey: "0123456789abcdef",
    macKeys: ["fedcba9876543210"],
    redis: { url: "rediss://cache:6379", cluster: false, durability: "C" },
    kube: { server: "https://k8s:6443", ca: "-----BEGIN x" },
    queues: {
      deltas: "https://sqs/1/deltas.fifo",
      doorbells: {
        deployment: "https://sqs/1/deployment",
        replicaset: "https://sqs/1/replicaset",
        replicationcontroller: "https://sqs/1/replicationcontroller",
      },
    },
    logLevel: "info",
    metrics: "emf",
  });
});

it("reports all errors at once, one per line, without quoting values", () => {
  const found = problems({
    ...GOOD,
    DELTALOOP_DEPLOYMENT: "Prod!",
    DELTALOOP_CLUSTER: undefined,
    DELTALOOP_MODE: "acct",
    DELTALOOP_DIGEST_KEY: "hunter2",
    DELTALOOP_MAC_KEY: "fedcba9876543210,swordfish",
    DELTALOOP_REDIS_URL: "cache:6379",
    DELTALOOP_REDIS_CLUSTR: "true",
    DELTALOOP_KUBE_TOKEN: "t0ken",
    DELTALOOP_KUBE_TOKEN_FILE: "/token",
  });
  expect(found.toSorted()).toEqual([
    "DELTALOOP_CLUSTER: is missing",
    "DELTALOOP_DEPLOYMENT: must be 1 to 32 small letters, digits and inner dashes",
    "DELTALOOP_DIGEST_KEY: must have at least 16 characters",
    "DELTALOOP_KUBE_TOKEN_FILE: duplicates DELTALOOP_KUBE_TOKEN: set only one of them",
    "DELTALOOP_MAC_KEY: each key must have at least 16 characters",
    "DELTALOOP_MODE: must be act or shadow",
    "DELTALOOP_REDIS_CLUSTR: is not a variable of deltaloop",
    "DELTALOOP_REDIS_URL: must start with redis:// or rediss://",
  ]);
  expect(found.join()).not.toMatch(/hunter2|t0ken|swordfish/);
});

it("reports all missing settings of an empty environment", () => {
  expect(problems({})).toHaveLength(10);
  expect(problems({}).every((problem) => problem.endsWith(": is missing"))).toBe(true);
});

it.each([
  { name: "a token", more: { DELTALOOP_KUBE_TOKEN: "t" } },
  { name: "a token file", more: { DELTALOOP_KUBE_TOKEN_FILE: "/var/token" } },
])("reports a server to which $name would be sent unencrypted, unless it is local", ({ more }) => {
  const over = (server: string) => problems({ ...GOOD, ...more, DELTALOOP_KUBE_SERVER: server });
  expect(over("http://k8s:8080")).toEqual(["DELTALOOP_KUBE_SERVER: must be https:// when a token goes to another machine"]);
  expect(over("http://127.0.0.1:8080")).toEqual([]);
  expect(over("https://k8s:6443")).toEqual([]);
  expect(problems({ ...GOOD, DELTALOOP_KUBE_SERVER: "http://k8s:8080" })).toEqual([]);
});

it("accepts the durability classes, but class B only with a single primary", () => {
  expect(parseConfiguration({ ...GOOD, DELTALOOP_REDIS_DURABILITY: "B" }).redis.durability).toBe("B");
  expect(problems({ ...GOOD, DELTALOOP_REDIS_DURABILITY: "D" })).toEqual(["DELTALOOP_REDIS_DURABILITY: must be A, B or C"]);
  expect(problems({ ...GOOD, DELTALOOP_REDIS_DURABILITY: "A", DELTALOOP_REDIS_CLUSTER: "true" })).toEqual([]);
  expect(problems({ ...GOOD, DELTALOOP_REDIS_DURABILITY: "B", DELTALOOP_REDIS_CLUSTER: "true" })).toEqual([
    expect.stringMatching(/^DELTALOOP_REDIS_DURABILITY: class B does not support a Redis Cluster/),
  ]);
});
