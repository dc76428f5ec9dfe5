/**
 * Commands whose Redis becomes unavailable after all other services have responded. Catches: the client library's error without address and
 * remedy, and a password.
 */
import { spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { afterEach, expect, it } from "vitest";

import { rotateMacKey } from "../../../cli/rotate/mac-key.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import { environmentOf } from "../../../shared/controllers/lambda/configuration.ts";
import { startSecretsStandIn } from "../../support/secrets-stand-in.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const NOBODY = "http://127.0.0.1:9/q";
const CONFIGURATION = {
  deployment: "test",
  cluster: "666ff6ccaa5b", // the cluster id for the uid below
  mode: "act",
  digestKey: "the digest key of the tests",
  macKeys: ["the MAC key of the tests"],
  redis: { url: "redis://:pass-word@127.0.0.1:9", cluster: false },
  kube: { server: "https://127.0.0.1:9" },
  queues: { deltas: NOBODY, doorbells: tableOf(CONTROLLERS, () => NOBODY) },
  logLevel: "error",
  metrics: "none",
} as const;
const AWAY = "DELTALOOP_REDIS_URL: the Redis at 127.0.0.1:9 cannot be used: connect ECONNREFUSED 127.0.0.1:9";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

it("[informer T122] resume reports the address of an unavailable Redis", async () => {
  const metadata = { name: "kube-system", uid: "11111111-2222-3333-4444-555555555555" };
  const api = createServer((_, response) => response.end(JSON.stringify({ kind: "Namespace", metadata })));
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  ends.push(() => api.close());
  const kube = { server: `http://127.0.0.1:${(api.address() as AddressInfo).port}` };
  const child = spawn(process.execPath, [join(ROOT, "cli/main.ts"), "resume"], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", ...environmentOf({ ...CONFIGURATION, kube }) },
  });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  expect({ code, text }).toEqual({ code: 2, text: `deltaloop: ${AWAY}\n` });
});

it("[informer T122] rotate mac-key reports the address of an unavailable Redis, keeps both keys, and prints how to continue", async () => {
  const secret = "deltaloop/test/mac-key";
  const server = await startSecretsStandIn({ [secret]: CONFIGURATION.macKeys[0] });
  ends.push(server.stop);
  const said: string[] = [];
  const rotating = rotateMacKey({
    environment: {
      ...environmentOf(CONFIGURATION),
      DELTALOOP_MAC_KEY: undefined,
      DELTALOOP_MAC_KEY_SECRET: secret,
      DELTALOOP_SECRETS_ENDPOINT: server.endpoint,
    },
    waitMs: 0,
    finish: false,
    now: () => 0,
    after: () => Promise.resolve(),
    signal: new AbortController().signal,
    say: (line) => void said.push(line),
  });
  await expect(rotating).rejects.toThrow(AWAY);
  expect(server.values.get(secret)).toMatch(/^[0-9a-f]{64},the MAC key of the tests$/);
  expect(said.at(-1)).toContain("deltaloop rotate mac-key --finish");
});
