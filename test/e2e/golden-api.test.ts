/** The in-memory API server compared with a real one: the same raw requests, and kubectl commands while our functions run. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import type { HttpApiServer } from "../../shared/api-server/http.ts";
import { isObject } from "../../shared/base/json.ts";
import type { JsonObject } from "../../shared/base/json.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { runKubectl } from "../envtest/kubectl.ts";
import { createApiClient } from "../envtest/api-client.ts";
import type { ApiClient } from "../envtest/api-client.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { rawClientAt } from "../support/raw-client.ts";
import type { RawClient } from "../support/raw-client.ts";
import { deltaloop, eventually, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import {
  exchange,
  isWordedOtherwise,
  normalise,
  PAUSES_MS,
  quotesObject,
  readExchanges,
  sendOver,
} from "../unit/local/api-server/upstream-answers.ts";
import type { Exchange } from "../unit/local/api-server/upstream-answers.ts";

const labels = { app: "web" };
const manifest = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", labels },
  spec: {
    replicas: 2,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1", ports: [{ containerPort: 80 }] }] } },
  },
};

/** kubectl commands, in order; the state settles after each. `say`: both servers must print the same output, except for times and names. */
const COMMANDS: readonly { readonly args: readonly string[]; readonly input?: object; readonly say?: true }[] = [
  { args: ["create", "namespace", "shop"], say: true },
  { args: ["apply", "-n", "shop", "-f", "-"], input: manifest, say: true },
  { args: ["rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s"] },
  { args: ["get", "deployments,replicasets,pods", "-n", "shop"], say: true },
  { args: ["get", "deployment", "web", "-n", "shop", "-o", "wide"], say: true },
  { args: ["get", "pods", "-n", "shop", "-l", "app=web", "-o", "name"], say: true },
  { args: ["apply", "-n", "shop", "-f", "-"], input: manifest, say: true },
  { args: ["scale", "deployment/web", "--replicas=4", "-n", "shop"], say: true },
  { args: ["rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s"] },
  { args: ["set", "image", "deployment/web", "main=shop:2", "-n", "shop"], say: true },
  { args: ["rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s"] },
  { args: ["rollout", "history", "deployment/web", "-n", "shop"], say: true },
  { args: ["rollout", "undo", "deployment/web", "-n", "shop"], say: true },
  { args: ["rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s"] },
  { args: ["rollout", "pause", "deployment/web", "-n", "shop"], say: true },
  { args: ["rollout", "resume", "deployment/web", "-n", "shop"], say: true },
  { args: ["apply", "-n", "shop", "-f", "-"], input: { ...manifest, spec: { ...manifest.spec, replicas: 1 } }, say: true },
  { args: ["rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s"] },
  { args: ["create", "deployment", "other", "--image=shop:1", "--replicas=1", "-n", "shop"], say: true },
  { args: ["rollout", "status", "deployment/other", "-n", "shop", "--timeout=60s"] },
  { args: ["get", "all", "-n", "shop"], say: true },
  { args: ["get", "deployment", "nobody", "-n", "shop"], say: true },
  { args: ["delete", "deployment", "other", "-n", "shop"], say: true },
];

/** Server-side applies, also of the object that a client-side apply above has created. */
const SERVER_SIDE: typeof COMMANDS = [
  { args: ["apply", "--server-side", "-n", "shop", "-f", "-"], input: settings("a", "1"), say: true },
  { args: ["apply", "--server-side", "--field-manager=ops", "-n", "shop", "-f", "-"], input: settings("a", "2"), say: true },
  {
    args: ["apply", "--server-side", "--field-manager=ops", "--force-conflicts", "-n", "shop", "-f", "-"],
    input: settings("a", "2"),
    say: true,
  },
  { args: ["apply", "--server-side", "--dry-run=server", "-n", "shop", "-f", "-"], input: settings("a", "1"), say: true },
  { args: ["apply", "--server-side", "-n", "shop", "-f", "-"], input: settings("b", "1"), say: true },
  { args: ["get", "configmap", "settings", "-n", "shop", "-o", "jsonpath={.data}"], say: true },
  { args: ["apply", "--server-side", "-n", "shop", "-f", "-"], input: { ...manifest, spec: { ...manifest.spec, replicas: 2 } }, say: true },
  { args: ["get", "deployment", "web", "-n", "shop", "-o", "jsonpath={.metadata.managedFields[*].manager}"] },
  { args: ["apply", "--server-side", "-n", "shop", "-f", "-"], input: { ...settings("b", "1"), dat: {} }, say: true },
];

function settings(key: string, value: string): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { [key]: value } };
}

const MALLORY = "/api/v1/namespaces/mallory/pods";
const MALLORY_SETS = "/apis/apps/v1/namespaces/mallory/replicasets";
const podOf = (name: string, more: JsonObject = {}): JsonObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels, ...more },
  spec: { containers: [{ name: "main", image: "shop:1" }] },
});
const setOf = (name: string, more: JsonObject = {}): JsonObject => ({
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  metadata: { name, ...more },
  spec: {
    replicas: 0,
    selector: { matchLabels: labels },
    template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
  },
});
const named = (kind: "ReplicaSet" | "Deployment", name: string): JsonObject => ({
  ownerReferences: [{ apiVersion: "apps/v1", kind, name, uid: `@${name}`, controller: true }],
});
const merge = "application/merge-patch+json";

/** Owners and dependents in different namespaces: an API server does not check owner references. */
const ACROSS_NAMESPACES: readonly Omit<Exchange, "answer">[] = [
  { name: "victim's ReplicaSet", request: "POST /apis/apps/v1/namespaces/victim/replicasets", body: setOf("victim-rs"), status: 201 },
  {
    name: "victim's Deployment",
    request: "POST /apis/apps/v1/namespaces/victim/deployments",
    body: { ...manifest, metadata: { name: "victim-d", labels } },
    status: 201,
  },
  { name: "pod created with", request: `POST ${MALLORY}`, body: podOf("with", named("ReplicaSet", "victim-rs")), status: 201 },
  { name: "pod", request: `POST ${MALLORY}`, body: podOf("patched"), status: 201 },
  {
    name: "pod patched to",
    request: `PATCH ${MALLORY}/patched`,
    type: merge,
    body: { metadata: named("ReplicaSet", "victim-rs") },
    status: 200,
  },
  { name: "ReplicaSet created with", request: `POST ${MALLORY_SETS}`, body: setOf("with", named("Deployment", "victim-d")), status: 201 },
  { name: "ReplicaSet", request: `POST ${MALLORY_SETS}`, body: setOf("patched"), status: 201 },
  {
    name: "ReplicaSet patched to",
    request: `PATCH ${MALLORY_SETS}/patched`,
    type: merge,
    body: { metadata: named("Deployment", "victim-d") },
    status: 200,
  },
];

await whereRealPartsAre("the in-memory API server compared with a real one", () => {
  describe("requests of kubectl and other clients", () => {
    let directory: string;
    let cluster: Cluster;
    let dev: Running;
    let memory: HttpApiServer;
    let memoryClient: RawClient;
    /** Clients for raw responses of the real server and of ours. */
    let raw: { readonly real: ApiClient; readonly ours: ApiClient };
    let memoryDev: Running;
    let kubeconfig: string;
    let kubectlPath: string;

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), "deltaloop-e2e-"));
      const binaries = await controlPlaneBinaries();
      if ("missing" in binaries) throw new Error(binaries.missing);
      kubectlPath = binaries.kubectl;
      cluster = await startCluster({ machines: false }); // the recorded requests need pods without controllers
      memory = await serveHttp(createApiServer({ clock: createSystemClock(), random: createSystemRandom(), managedFields: true }));
      kubeconfig = join(directory, "kubeconfig");
      await writeFile(kubeconfig, kubeconfigOf({ server: memory.url }));
      memoryClient = await rawClientAt(kubeconfig, "e2e");
      const config = await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "e2e" });
      raw = { real: createApiClient(config), ours: createApiClient({ server: memory.url }) };
    });
    afterAll(async () => {
      await Promise.all([dev?.stop(), memoryDev?.stop()]);
      await memory?.close();
      await cluster?.stop();
      await rm(directory, { recursive: true, force: true });
    });

    // Runs before our functions start, because it compares only the two servers.
    for (const one of readExchanges()) {
      it(`responds like kube-apiserver: ${one.name}`, async () => {
        if (one.name === "del ns") await Promise.all([held(raw.real), held(raw.ours)]);
        const [real, ours] = [await ask(one, raw.real, realUids), await ask(one, raw.ours, memoryUids)];
        await sleep(PAUSES_MS[one.name] ?? 0);
        if (isWordedOtherwise(one))
          expect({ status: ours.status, reason: reasonOf(ours.answer) }).toEqual({ status: real.status, reason: reasonOf(real.answer) });
        else expect(ours).toEqual(real);
        // Checks that the responses recorded for the unit tests still equal upstream's.
        const want = normalise(one.answer);
        if (quotesObject(one))
          expect({ status: real.status, reason: reasonOf(real.answer) }).toEqual({ status: one.status, reason: reasonOf(want) });
        else expect({ status: real.status, answer: real.answer }).toEqual({ status: one.status, answer: want });
      });
    }

    it("accepts references to owners of another namespace, like kube-apiserver", async () => {
      for (const namespace of ["victim", "mallory"]) {
        const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
        await Promise.all([cluster.client, memoryClient].map((client) => client.request("POST", "/api/v1/namespaces", body)));
      }
      await eventually("a service account for pods", () => cluster.get("/api/v1/namespaces/mallory/serviceaccounts/default"));
      for (const one of ACROSS_NAMESPACES) {
        const asked = { ...one, answer: {} };
        const [real, ours] = [await ask(asked, raw.real, realUids), await ask(asked, raw.ours, memoryUids)];
        expect({ name: one.name, ...ours }).toEqual({ name: one.name, ...real });
        expect({ name: one.name, status: real.status }).toEqual({ name: one.name, status: one.status });
      }
    });

    it("runs kubectl's commands while deltaloop's functions act, with the same output", async () => {
      await Promise.all([
        cluster.kubectl("delete", "namespace", "golden", "--wait=false", "--ignore-not-found"),
        raw.ours("DELETE", "/api/v1/namespaces/golden"),
      ]);
      memoryDev = deltaloop(["dev", "--act", "--kubeconfig", kubeconfig, "--nodes", "2", "--bind-pods"]);
      dev = await startDev(cluster, "--nodes", "2", "--bind-pods");
      await memoryDev.line("ready:");
      const from = performance.now();
      for (const { args, input, say } of [...COMMANDS, ...SERVER_SIDE]) {
        const stdin = input === undefined ? undefined : JSON.stringify(input);
        const [real, ours] = await Promise.all([
          cluster.plane.kubectl(args, stdin === undefined ? {} : { input: stdin }),
          runKubectl(kubectlPath, args, { kubeconfig, input: stdin, cacheFolder: join(directory, "kubectl-cache") }),
        ]);
        const command = `kubectl ${args.join(" ")}`;
        expect(ours.code, `${command}: ${ours.stderr}`).toBe(real.code);
        if (say)
          expect({ command, stdout: faceless(ours.stdout), stderr: faceless(ours.stderr) }).toEqual({
            command,
            stdout: faceless(real.stdout),
            stderr: faceless(real.stderr),
          });
        if (args[0] !== "get") await Promise.all([settled(cluster.client), settled(memoryClient)]);
      }
      measured(
        `${COMMANDS.length + SERVER_SIDE.length} kubectl commands on both servers in ${((performance.now() - from) / 1000).toFixed(1)} s`,
      );
    });

    it("describes a Deployment as kubectl does on a real server", async () => {
      const args = ["describe", "deployment", "web", "-n", "shop"];
      const [real, ours] = await Promise.all([
        cluster.plane.kubectl(args),
        runKubectl(kubectlPath, args, { kubeconfig, input: undefined, cacheFolder: join(directory, "kubectl-cache") }),
      ]);
      // Omits Events, because a rollout's intermediate sizes depend on timing.
      const head = ({ stdout }: { readonly stdout: string }): string => faceless(stdout.slice(0, stdout.indexOf("Events:")));
      expect(head(ours)).toEqual(head(real));
      expect(ours.stdout).toMatch(/Normal +ScalingReplicaSet +\S+.* +deployment-controller +Scaled up replica set web-/);
    });

    it("both servers have the same objects at the end", async () => {
      for (const path of ["/apis/apps/v1/namespaces/shop/deployments", "/apis/apps/v1/namespaces/shop/replicasets"]) {
        const [real, ours] = await Promise.all([cluster.client.list(path), memoryClient.list(path)]);
        expect(ours.items.map(comparable)).toEqual(real.items.map(comparable));
      }
    });
  });
});

const realUids = new Map<string, string>();
const memoryUids = new Map<string, string>();

/** Keeps the namespace terminating during the recorded requests: an empty one may be deleted within 50 ms. */
async function held(api: ApiClient): Promise<void> {
  const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "held", finalizers: ["deltaloop.test/held"] } };
  expect(await api("POST", "/api/v1/namespaces/golden/configmaps", body)).toMatchObject({ code: 201 });
}

async function ask(one: Exchange, api: ApiClient, uids: Map<string, string>): ReturnType<typeof exchange> {
  return await exchange(one, sendOver(api), uids);
}

function reasonOf(answer: unknown): unknown {
  return isObject(answer) ? answer["reason"] : undefined;
}

/** Returns the text without ages, times and the random parts of pod names. Collapses spaces, because column widths depend on ages. */
function faceless(text: string): string {
  return text
    .replaceAll(/\b(web|other)-([a-z0-9]+)-[a-z0-9]{5}\b/g, "$1-$2-*****")
    .replaceAll(/\b\d+m?\d*s\b/g, "<age>")
    .replaceAll(/[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} [+-]\d{4}/g, "<time>")
    .replaceAll(/ +/g, " ");
}

const VOLATILE = new Set([
  "uid",
  "resourceVersion",
  "creationTimestamp",
  "managedFields",
  "lastUpdateTime",
  "lastTransitionTime",
  "generation",
  "observedGeneration",
]);

function comparable(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (field, inner: unknown) => (VOLATILE.has(field) ? undefined : sortedConditions(field, inner))));
}

function sortedConditions(field: string, value: unknown): unknown {
  return field === "conditions" && Array.isArray(value)
    ? value.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
    : value;
}

interface Workload {
  readonly metadata: { readonly generation?: number };
  readonly spec: { readonly replicas?: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly terminatingReplicas?: number;
  };
}

/** Waits until no change is pending in the namespace. */
async function settled(client: RawClient): Promise<void> {
  await eventually("the namespace settles", async () => {
    const [deployments, sets, pods] = await Promise.all([
      client.list("/apis/apps/v1/namespaces/shop/deployments"),
      client.list("/apis/apps/v1/namespaces/shop/replicasets"),
      client.list("/api/v1/namespaces/shop/pods"),
    ]);
    const workloads = [...deployments.items, ...sets.items] as unknown as readonly Workload[]; // the workloads at these paths
    const asked = (sets.items as unknown as readonly Workload[]).reduce((sum, { spec }) => sum + (spec.replicas ?? 0), 0); // as above
    return (
      asked === pods.items.length &&
      workloads.every(
        ({ metadata, spec, status }) =>
          status?.observedGeneration === metadata.generation &&
          (status?.replicas ?? 0) === spec.replicas &&
          (status?.readyReplicas ?? 0) === spec.replicas &&
          (status?.terminatingReplicas ?? 0) === 0,
      )
    );
  });
}
