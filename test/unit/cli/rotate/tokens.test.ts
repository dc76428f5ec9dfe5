/**
 * `deltaloop rotate tokens`. Catches: a token that is written to another function's secret, a failed token that prevents the others, a
 * token in the output, a service account whose token the rotation has no permission to request, and a CronJob that the image cannot run.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rootCertificates } from "node:tls";
import { afterEach, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";

import { keepTokensFresh, KUBE_COMPONENTS, renewTokens } from "../../../../cli/rotate/tokens.ts";
import { createKubeHttp } from "../../../../shared/kube/http/kube-http.ts";
import { createSecrets } from "../../../../shared/store/secrets/secrets.ts";
import { serviceAccount } from "../../../../shared/controllers/registry/names.ts";
import { deltaloop, ROOT } from "../../../support/e2e.ts";
import { blocksOf } from "../../../support/pages.ts";
import { startSecretsStandIn } from "../../../support/secrets-stand-in.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const MANIFESTS = "infra/manifests/token-renewer";
const POD_CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount";

interface PodSpec {
  readonly serviceAccountName: string;
  readonly securityContext: object;
  readonly containers: readonly [{ readonly args: readonly string[]; readonly securityContext: object }];
}

interface Kustomization {
  readonly resources: readonly string[];
  readonly configMapGenerator: readonly {
    readonly name: string;
    readonly files?: readonly string[];
    readonly literals?: readonly string[];
  }[];
}

interface PodTemplate {
  readonly template: { readonly spec: PodSpec };
}

/** The first document of a manifest. */
async function podOf(manifest: string): Promise<PodSpec> {
  const first = parseAllDocuments(await readFile(manifest, "utf8"))[0]?.toJS() as
    | { readonly spec: PodTemplate | { readonly jobTemplate: { readonly spec: PodTemplate } } }
    | undefined;
  if (first === undefined) throw new Error(`${manifest} is empty`);
  return ("jobTemplate" in first.spec ? first.spec.jobTemplate.spec : first.spec).template.spec;
}

async function scene() {
  const asked: string[] = [];
  const refused = new Set<string>();
  const bearers = new Set<string | undefined>();
  const api = createServer((request, response) => {
    bearers.add(request.headers.authorization);
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
  return { plan, access, server, refused, said, asked, names, bearers };
}

it("writes a token of its own service account with the authority to each function's secret, and prints no token", async () => {
  const { plan, server, said, names } = await scene();
  expect(await renewTokens(plan)).toBe(0);
  for (const [index, name] of names.entries())
    expect(JSON.parse(server.values.get(`deltaloop/prod/kube/${name}`) ?? "")).toEqual({ token: `CANARY-${name}-${index + 1}`, ca: "PEM" });
  expect(said).toEqual(names.map((name) => `${name}: renewed, ends 2026-01-02T03:04:05.000Z`));
});

it("reports each failure and still renews the other tokens", async () => {
  const { plan, server, refused, said } = await scene();
  refused.add("sync-deployment");
  server.refused.set("deltaloop/prod/kube/sync-replicaset", "AccessDeniedException");
  expect(await renewTokens(plan)).toBe(2);
  expect(said.filter((line) => line.includes("not renewed"))).toEqual([
    "sync-deployment: not renewed: 403 Forbidden",
    "sync-replicaset: not renewed: SecretError: deltaloop/prod/kube/sync-replicaset: access is denied: allow secretsmanager:PutSecretValue on it, and kms:Decrypt if its key is your own",
  ]);
  expect(server.values.get("deltaloop/prod/kube/watcher")).toContain("CANARY-watcher");
});

it("continues to renew tokens, even after failures, until it is stopped", async () => {
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

it("the renewer's role lists only the service accounts of the functions and of the watcher", async () => {
  const manifest = await readFile(`${MANIFESTS}/rbac.yaml`, "utf8");
  const [, named = ""] = /resourceNames:\n((?: {6}- \S+\n)+)/.exec(manifest) ?? [];
  expect(
    named
      .trim()
      .split("\n")
      .map((line) => line.trim().slice(2)),
  ).toEqual([...KUBE_COMPONENTS, "watcher"].map(serviceAccount));
});

it("the CronJob's command runs in the image and renews every token as the pod's service account", async () => {
  const { access, server, names, bearers } = await scene();
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-renewer-"));
  ends.push(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, "token"), "of-the-pod\n");
  await writeFile(join(folder, "ca.crt"), rootCertificates[0] ?? "");
  const kubeconfig = await readFile(`${MANIFESTS}/kubeconfig.yaml`, "utf8");
  await writeFile(
    join(folder, "kubeconfig.yaml"),
    kubeconfig.replaceAll(POD_CREDENTIALS, folder).replace("https://kubernetes.default.svc", access.server),
  );
  const { args } = (await podOf(`${MANIFESTS}/cronjob.yaml`)).containers[0];
  const inPod = args.map((arg) => arg.replace("$(STAGE)", "prod").replace("/etc/deltaloop", folder));
  const command = deltaloop(
    inPod,
    { DELTALOOP_SECRETS_ENDPOINT: server.endpoint, AWS_REGION: "eu-central-1", AWS_ACCESS_KEY_ID: "A", AWS_SECRET_ACCESS_KEY: "s" },
    join(ROOT, "cli/image.ts"),
  );
  expect({ ...(await command.exited), output: command.output() }).toMatchObject({ code: 0, output: expect.stringContaining("renewed") });
  expect(bearers).toEqual(new Set(["Bearer of-the-pod"]));
  for (const name of names)
    expect(JSON.parse(server.values.get(`deltaloop/prod/kube/${name}`) ?? ""), name).toEqual({
      token: expect.stringContaining(`CANARY-${name}-`),
      ca: rootCertificates[0],
    });
});

it("the CronJob's pod has the service account of the role, and the watcher's restrictions", async () => {
  const pod = await podOf(`${MANIFESTS}/cronjob.yaml`);
  const watcher = await podOf("infra/manifests/watcher.yaml");
  const [account, role] = parseAllDocuments(await readFile(`${MANIFESTS}/rbac.yaml`, "utf8")).map((each) => each.toJS() as unknown);
  expect(account).toMatchObject({ kind: "ServiceAccount", metadata: { name: pod.serviceAccountName } });
  expect(role).toMatchObject({ kind: "Role", rules: [{ apiGroups: [""], resources: ["serviceaccounts/token"], verbs: ["create"] }] });
  expect(pod.securityContext).toEqual(watcher.securityContext);
  expect(pod.containers[0].securityContext).toEqual(watcher.containers[0].securityContext);
});

it("the kustomization references existing files, and the guide's overlay sets what the CronJob reads", async () => {
  const { configMapGenerator, resources } = parse(await readFile(`${MANIFESTS}/kustomization.yaml`, "utf8")) as Kustomization;
  for (const file of [...resources, ...configMapGenerator.flatMap(({ files = [] }) => files)])
    expect(await readFile(`${MANIFESTS}/${file}`, "utf8"), file).toContain("apiVersion: ");
  const guide = blocksOf("deploy.md", await readFile("docs/guides/deploy.md", "utf8"));
  const overlay = parse(guide.find((block) => block.kind === "file" && block.path === "kustomization.yaml")?.text ?? "") as Kustomization;
  expect(overlay.resources).toEqual([MANIFESTS]);
  const cronJob = await readFile(`${MANIFESTS}/cronjob.yaml`, "utf8");
  for (const { name } of [...configMapGenerator, ...overlay.configMapGenerator]) expect(cronJob).toContain(`name: ${name}\n`);
  const variables = overlay.configMapGenerator.flatMap(({ literals = [] }) => literals).map((literal) => literal.split("=")[0]);
  expect(variables).toEqual(["STAGE", "AWS_REGION"]);
});
