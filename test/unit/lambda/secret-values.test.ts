/** References to secrets and the values that replace them. */
import { expect, it } from "vitest";

import { ConfigurationError, type Variables } from "../../../shared/controllers/lambda/configuration.ts";
import { referencesIn, withSecrets } from "../../../shared/controllers/lambda/secret-values.ts";

function resolved(environment: Variables, values: Readonly<Record<string, string>>): Variables {
  return withSecrets(environment, referencesIn(environment), new Map(Object.entries(values))).variables;
}

const PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

it.each([
  { name: "a MAC key", environment: { DELTALOOP_MAC_KEY_SECRET: "r" }, value: "one,two\n", want: { DELTALOOP_MAC_KEY: "one,two" } },
  { name: "a digest key", environment: { DELTALOOP_DIGEST_KEY_SECRET: "r" }, value: "one", want: { DELTALOOP_DIGEST_KEY: "one" } },
  {
    name: "a token without a CA",
    environment: { DELTALOOP_KUBE_SECRET: "r" },
    value: "eyJ.a-b.c_d",
    want: { DELTALOOP_KUBE_TOKEN: "eyJ.a-b.c_d" },
  },
  {
    name: "a token and a CA, which overrides the environment's",
    environment: { DELTALOOP_KUBE_SECRET: "r", DELTALOOP_KUBE_CA_FILE: "/ca" },
    value: JSON.stringify({ token: "t", ca: PEM }),
    want: { DELTALOOP_KUBE_TOKEN: "t", DELTALOOP_KUBE_CA: PEM, DELTALOOP_KUBE_CA_FILE: undefined },
  },
  {
    name: "a certificate",
    environment: { DELTALOOP_KUBE_SECRET: "r" },
    value: JSON.stringify({ clientCertificate: PEM, clientKey: "k" }),
    want: { DELTALOOP_KUBE_CLIENT_CERTIFICATE: PEM, DELTALOOP_KUBE_CLIENT_KEY: "k" },
  },
  { name: "empty credentials", environment: { DELTALOOP_KUBE_SECRET: "r" }, value: "{}", want: {} },
  {
    name: "no secret if tokens are signed locally",
    environment: { DELTALOOP_KUBE_SECRET: "r", DELTALOOP_KUBE_EKS_CLUSTER: "prod" },
    value: "CANARY",
    want: { DELTALOOP_KUBE_EKS_CLUSTER: "prod" },
  },
  {
    name: "a user and a password of Redis",
    environment: { DELTALOOP_REDIS_SECRET: "r", DELTALOOP_REDIS_URL: "rediss://cache:6379/0" },
    value: JSON.stringify({ username: "delta@loop", password: "p/a:s%s#?", more: 1 }),
    want: { DELTALOOP_REDIS_URL: "rediss://delta%40loop:p%2Fa%3As%25s%23%3F@cache:6379/0" },
  },
  {
    name: "a password of Redis",
    environment: { DELTALOOP_REDIS_SECRET: "r", DELTALOOP_REDIS_URL: "rediss://cache:6379" },
    value: "p w",
    want: { DELTALOOP_REDIS_URL: "rediss://:p%20w@cache:6379" },
  },
  {
    name: "a complete Redis URL",
    environment: { DELTALOOP_REDIS_SECRET: "r" },
    value: "redis://u:p@h:1",
    want: { DELTALOOP_REDIS_URL: "redis://u:p@h:1" },
  },
])("reads $name", ({ environment, value, want }) => {
  expect(resolved({ ...environment, DELTALOOP_SECRETS_ENDPOINT: "http://x", DELTALOOP_SECRETS_SECONDS: "5" }, { r: value })).toEqual(want);
});

function problems(environment: Variables, value: string): readonly string[] {
  try {
    resolved(environment, { r: value });
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  return [];
}

it.each([
  {
    name: "a secret reference in addition to the value",
    environment: { DELTALOOP_MAC_KEY_SECRET: "r", DELTALOOP_MAC_KEY: "CANARY" },
    value: "CANARY",
    want: ["DELTALOOP_MAC_KEY: duplicates DELTALOOP_MAC_KEY_SECRET: set only one of them"],
  },
  {
    name: "a certificate without its key",
    environment: { DELTALOOP_KUBE_SECRET: "r" },
    value: '{"clientCertificate":"CANARY"}',
    want: ['DELTALOOP_KUBE_SECRET: its value is neither {"token"} nor {"clientCertificate", "clientKey"}, each with an optional "ca"'],
  },
  {
    name: "a token within other text",
    environment: { DELTALOOP_KUBE_SECRET: "r" },
    value: "Bearer CANARY",
    want: ["DELTALOOP_KUBE_SECRET: its value is not a token"],
  },
  {
    name: "two passwords of Redis",
    environment: { DELTALOOP_REDIS_SECRET: "r", DELTALOOP_REDIS_URL: "redis://:CANARY@h" },
    value: "CANARY",
    want: ["DELTALOOP_REDIS_SECRET: contains a password, and DELTALOOP_REDIS_URL contains another"],
  },
  {
    name: "a password without a Redis URL",
    environment: { DELTALOOP_REDIS_SECRET: "r" },
    value: "CANARY",
    want: ["DELTALOOP_REDIS_SECRET: its value is a password, and DELTALOOP_REDIS_URL does not name the Redis server"],
  },
  {
    name: "JSON without Redis settings",
    environment: { DELTALOOP_REDIS_SECRET: "r", DELTALOOP_REDIS_URL: "redis://h" },
    value: '{"pass":"CANARY"}',
    want: ['DELTALOOP_REDIS_SECRET: its value is neither a URL, nor a password, nor {"username", "password"}'],
  },
  ...["0", "301", "1.5", "CANARY"].map((seconds) => ({
    name: `an interval of ${seconds} seconds`,
    environment: { DELTALOOP_MAC_KEY_SECRET: "r", DELTALOOP_SECRETS_SECONDS: seconds },
    value: "CANARY",
    want: ["DELTALOOP_SECRETS_SECONDS: must be a whole number from 1 to 300"],
  })),
])("rejects $name, without quoting the value", ({ environment, value, want }) => {
  expect(problems(environment, value)).toEqual(want);
});
