/**
 * `deltaloop rotate tokens`. Catches: a token written to another function's secret, one that stops all others, a renewal that ends with the
 * first failure, a token in what is printed, a service account that the renewer may not ask for.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";

import { keepTokensFresh, KUBE_COMPONENTS, renewTokens } from "../../../../cli/rotate/tokens.ts";
import { createKubeHttp } from "../../../../shared/kube/http/kube-http.ts";
import { createSecrets } from "../../../../shared/store/secrets/secrets.ts";
import { serviceAccount } from "../../../../shared/controllers/registry/names.ts";
import { startSecretsStandIn } from "../../../support/secrets-stand-in.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function scene() {
  const asked: string[] = [];
  const refused = new Set<string>();
  const api = createServer((request, response) => {
    const [, account = ""] = /^\/api\/v1\/namespaces\/deltaloop\/serviceaccounts\/deltaloop-([\w-]+)\/token/.exec(request.url ?? "") ?? [];
    request.resume().on("end", () => {
      if (refused.has(account)) return response.writeHead(403).end(JSON.stringify({ kind: "Status", code: 403, reason: "Forbidden" }));
      asked.push(account);
      const status = { token: `CANARY-${account}-${asked.length}`, expirationTimestamp: "2026-01-02T03:04:05Z" };
      return response.writeHead(201).end(JSON.stringify({ kind: "TokenRequest", metadata: {}, status }));
    });
  });
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  const names = [...KUBE_COMPONENTS, "watcher"];
  const server = await startSecretsStandIn(Object.fromEntries(names.map((name) => [`deltaloop/prod/kube/${name}`, "none"])));
  const secrets = createSecrets({ endpoint: server.endpoint });
  ends.push(
    secrets.close,
    server.stop,
    () => void api.close(),
    () => api.closeAllConnections(),
  );
  const said: string[] = [];
  const access = { server: `http://127.0.0.1:${(api.address() as AddressInfo).port}`, component: "token-renewer", ca: "PEM" };
  const plan = {
    kube: createKubeHttp(access),
    ca: access.ca,
    secrets,
    names,
    prefix: "deltaloop/prod/kube/",
    seconds: 3_600,
    say: (line: string) => void said.push(line),
  };
  return { plan, server, refused, said, asked, names };
}

it("each function's secret gets a token of its own service account, with the authority, and none is printed", async () => {
  const { plan, server, said, names } = await scene();
  expect(await renewTokens(plan)).toBe(0);
  for (const [index, name] of names.entries())
    expect(JSON.parse(server.values.get(`deltaloop/prod/kube/${name}`) ?? "")).toEqual({ token: `CANARY-${name}-${index + 1}`, ca: "PEM" });
  expect(said).toEqual(names.map((name) => `${name}: renewed, ends 2026-01-02T03:04:05.000Z`));
});

it("what fails is named and keeps nobody else from being renewed", async () => {
  const { plan, server, refused, said } = await scene();
  refused.add("sync-deployment");
  server.refused.set("deltaloop/prod/kube/sync-replicaset", "AccessDeniedException");
  expect(await renewTokens(plan)).toBe(2);
  expect(said.filter((line) => line.includes("not renewed"))).toEqual([
    "sync-deployment: not renewed: 403 Forbidden",
    "sync-replicaset: not renewed: SecretError: deltaloop/prod/kube/sync-replicaset: may not be used: allow secretsmanager:PutSecretValue on it, and kms:Decrypt if its key is your own",
  ]);
  expect(server.values.get("deltaloop/prod/kube/watcher")).toContain("CANARY-watcher");
});

it("goes on, also after failures, until it is ended", async () => {
  const { plan, refused, asked } = await scene();
  const ending = new AbortController();
  for (const name of plan.names) refused.add(name);
  const running = keepTokensFresh({ ...plan, names: ["watcher"] }, 20, ending.signal);
  await new Promise((resolve) => setTimeout(resolve, 60));
  refused.clear();
  while (asked.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  ending.abort();
  expect(await running).toBe(0);
});

it("the renewer's role names the service accounts of the functions and of the watcher, and nothing else", async () => {
  const manifest = await readFile("infra/manifests/token-renewer.yaml", "utf8");
  const [, named = ""] = /resourceNames:\n((?: {6}- \S+\n)+)/.exec(manifest) ?? [];
  expect(
    named
      .trim()
      .split("\n")
      .map((line) => line.trim().slice(2)),
  ).toEqual([...KUBE_COMPONENTS, "watcher"].map(serviceAccount));
});
