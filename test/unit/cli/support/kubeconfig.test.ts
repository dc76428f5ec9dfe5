/** Catches a token of a kubeconfig that would go out unencrypted, wherever in the file it comes from. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { TokenInClearError } from "../../../../shared/adapters/kube-http/config.ts";
import type { KubeHttpConfig } from "../../../../shared/adapters/kube-http/config.ts";
import { kubeHttpConfigFrom } from "../../../../cli/support/kubeconfig.ts";

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "deltaloop-kubeconfig-"))));
afterAll(() => rm(folder, { recursive: true }));

async function configFor(server: string, user: object): Promise<KubeHttpConfig> {
  const path = join(folder, "kubeconfig");
  const content = {
    apiVersion: "v1",
    kind: "Config",
    // client-node takes http:// only from who verifies no certificate.
    clusters: [{ name: "c", cluster: { server, "insecure-skip-tls-verify": true } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  await writeFile(path, JSON.stringify(content));
  return await kubeHttpConfigFrom(path, { component: "test" });
}

it("a token for an http:// server on another machine is refused, from the file itself and from a token file", async () => {
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, "secret");
  for (const user of [{ token: "secret" }, { "token-file": tokenFile }]) {
    await expect(configFor("http://k8s:8080", user)).rejects.toThrow(TokenInClearError);
    await expect(configFor("http://127.0.0.1:8080", user)).resolves.toMatchObject({ server: "http://127.0.0.1:8080" });
  }
});

it("an http:// server without a token is taken, as kubectl proxy is one", async () => {
  await expect(configFor("http://k8s:8080", {})).resolves.toMatchObject({ server: "http://k8s:8080" });
});

it("a token that the server has refused is read from the file again, once; another one stays", async () => {
  const server = "https://k8s:6443";
  const { token } = await configFor(server, { token: "one" });
  expect(await token?.()).toBe("one");
  await configFor(server, { token: "two" });
  expect(await token?.()).toBe("one");
  expect(await token?.("zero")).toBe("one");
  expect(await Promise.all([token?.("one"), token?.("one")])).toEqual(["two", "two"]);
  expect(await token?.("one")).toBe("two");
  expect(await token?.("two")).toBe("two");
  await configFor(server, { token: "three" });
  expect(await token?.("two")).toBe("two"); // asked for anew already; in a minute again
});

it("a plugin is run again when the server has refused its token, however long it said to keep it", async () => {
  const script = `const fs = require("node:fs"); const n = Number(fs.existsSync(process.argv[1]) ? fs.readFileSync(process.argv[1], "utf8") : 0) + 1;
    fs.writeFileSync(process.argv[1], String(n));
    console.log(JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status: { token: "run-" + n } }))`;
  const exec = { apiVersion: "client.authentication.k8s.io/v1", command: process.execPath, args: ["-e", script, join(folder, "runs")] };
  const { token } = await configFor("https://k8s:6443", { exec });
  const first = await token?.();
  expect(await token?.("another")).toBe(first);
  const second = await token?.(first);
  expect(second).toMatch(/^run-\d$/);
  expect(second).not.toBe(first);
  expect(await token?.(first)).toBe(second);
});
