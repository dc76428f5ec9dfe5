/** Catches a token of a kubeconfig that would go out unencrypted, wherever in the file it comes from. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { TokenInClearError } from "../../../../shared/adapters/kube-http/config.ts";
import { kubeHttpConfigFrom } from "../../../../cli/support/kubeconfig.ts";

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "deltaloop-kubeconfig-"))));
afterAll(() => rm(folder, { recursive: true }));

async function configFor(server: string, user: object): Promise<unknown> {
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
