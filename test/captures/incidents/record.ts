/**
 * `npm run incidents [-- incidents | incidents/post-mortems | healthy | incidents/NAME …]`: plays incidents.ts, post-mortems.ts and
 * healthy.ts on a real control plane with upstream's controllers and scheduler, and two nodes of the agent on containerd, and records
 * each with `deltaloop capture -n`. A recorded file is replaced only if its scene reached its final condition.
 */
import { readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";

import { builtBinaries } from "../../envtest/binaries.ts";
import type { ControlPlaneBinaries } from "../../envtest/binaries.ts";
import { BUILDABLE, COMPARED_VERSION } from "../../envtest/release-module.ts";
import { ensureContainerd } from "../../containerd/programs.ts";
import { startRegistry } from "../../containerd/registry.ts";
import { nodesReady, startNodes } from "../../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../../harness/node-processes/containerd-nodes.ts";
import { deltaloop, eventually, startCluster } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { HEALTHY } from "./healthy.ts";
import { INCIDENTS } from "./incidents.ts";
import { POST_MORTEMS } from "./post-mortems.ts";
import type { Scene, Stage } from "./stage.ts";
import { writeFirstFindings } from "./verdicts.ts";

interface Event {
  readonly reason: string;
  readonly count?: number;
  readonly series?: { readonly count: number };
}

const SIDE_BY_SIDE = 3;
const SIGN_MS_MAX = 180_000;
const PULL_MS = 6_000;
const CLUSTER_SCOPED = ["PriorityClass", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];

const wanted = process.argv.slice(2);
const scenes = [
  ...scenesOf("incidents", INCIDENTS),
  ...scenesOf("incidents/post-mortems", POST_MORTEMS),
  ...scenesOf("healthy", HEALTHY),
].filter(({ folder, name }) => wanted.length === 0 || wanted.includes(name) || wanted.includes(folder));
const missing = ensureContainerd();
if (missing !== undefined) throw new Error(missing);
const cluster = await startCluster({ controllers: "all", machines: "scheduler" });
const registry = await startRegistry();
const closed = await startRegistry({ user: "other", password: "known" });
const limited = createServer((_, response) => response.writeHead(429).end('{"errors":[{"code":"TOOMANYREQUESTS"}]}'));
await new Promise<void>((resolve) => limited.listen(0, "127.0.0.1", resolve));
let nodes: readonly NodeAgent[] = [];
try {
  await registry.add("app", PULL_MS);
  nodes = await startNodes(cluster, ["node-a", "node-b"]);
  await nodesReady(cluster, ...nodes);
  const together = scenes.filter(({ scene }) => scene.alone !== true);
  await Promise.all(
    Array.from({ length: SIDE_BY_SIDE }, async () => {
      for (let next = together.shift(); next !== undefined; next = together.shift()) await record(next);
    }),
  );
  for (const each of scenes.filter(({ scene }) => scene.alone === true)) await record(each);
} finally {
  await Promise.all(nodes.map((node) => node.stop()));
  await Promise.all([registry.stop(), closed.stop(), new Promise((resolve) => limited.close(resolve))]);
  await cluster.stop();
}
await writeFirstFindings();

type Undo = () => void | Promise<unknown>;

interface Named {
  readonly folder: string;
  readonly name: string;
  readonly scene: Scene;
}

function scenesOf(folder: string, all: Readonly<Record<string, Scene>>): readonly Named[] {
  return Object.entries(all).map(([name, scene]) => ({ folder, name: `${folder}/${name}`, scene }));
}

async function record({ folder, name, scene }: Named): Promise<void> {
  const short = name.slice(folder.length + 1);
  const namespace = folder === "healthy" ? `ok-${short}` : short;
  const file = join(import.meta.dirname, `../${name}.raw`);
  const undo: Undo[] = [];
  await cluster.client.request("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
  await eventually("the namespace has its service account", () => cluster.get(`/api/v1/namespaces/${namespace}/serviceaccounts/default`));
  const capture = deltaloop(["capture", "-n", namespace, "-o", file, "--force", "--kubeconfig", cluster.plane.adminKubeconfig]);
  try {
    await capture.line("capturing");
    await scene.play(stageOf(cluster, namespace, undo));
    await sleep(1_000);
    await capture.stop();
    await writeFile(file.replace(".raw", ".jsonl.gz"), gzipSync(await readFile(file), { level: 9 }));
    process.stdout.write(`recorded  ${name}\n`);
  } catch (error) {
    process.stdout.write(`FAILED    ${name}: ${String(error).slice(0, 600)}\n`);
    process.exitCode = 1;
  } finally {
    for (const each of undo) await each();
    await capture.stop();
    await rm(file, { force: true });
    await cluster.kubectl("delete", "namespace", namespace, "--wait=false");
  }
}

function imageOf(name: string): string {
  const { port } = limited.address() as AddressInfo; // a listening TCP server has an AddressInfo
  if (name === "limited") return `127.0.0.1:${port}/limited:1`;
  return name === "denied" ? closed.image(name) : registry.image(name);
}

function stageOf({ client, kubectl, plane, list, ...rest }: Cluster, namespace: string, undo: Undo[]): Stage {
  const core = `/api/v1/namespaces/${namespace}`;
  const until = async (what: string, look: () => Promise<boolean>): Promise<void> => {
    await eventually(`${namespace}: ${what}`, look, SIGN_MS_MAX);
  };
  return {
    namespace,
    image: imageOf,
    kubectl: async (...args) => await kubectl("-n", namespace, ...args),
    async apply(...objects) {
      await rest.apply(...objects.map((object) => inNamespace(object, namespace)));
    },
    async publish(repository) {
      await registry.add(repository, 0);
      return registry.image(repository);
    },
    refuse: (repository, status) => registry.refuse(repository, status),
    complete: async (name = "web") => await rest.rolledOut(namespace, name, 120),
    async event(reason, times = 1) {
      await until(`${times} Events ${reason}`, async () => {
        const counts = (await list<Event>(`${core}/events`)).filter((event) => event.reason === reason);
        return counts.reduce((sum, { count, series }) => sum + (series?.count ?? count ?? 1), 0) >= times;
      });
    },
    async contains(text) {
      await until(text, async () => {
        const paths = [
          `${core}/pods`,
          ...["deployments", "replicasets"].map((resource) => `/apis/apps/v1/namespaces/${namespace}/${resource}`),
        ];
        const found = await Promise.all(paths.map((path) => client.list(path)));
        return JSON.stringify(found).includes(text);
      });
    },
    seconds: async (count) => await sleep(count * 1_000),
    afterwards: (each) => void undo.push(each),
    async release(minor) {
      await plane.changeRelease(await binariesOf((version) => version.startsWith(`v${minor}.`)));
      undo.unshift(async () => await plane.changeRelease(await binariesOf((version) => version === COMPARED_VERSION)));
    },
    async hold(what) {
      const pid = what === "controllers" ? plane.pids()["kube-controller-manager"] : nodes.find(({ name }) => name === what)?.agent().pid;
      if (pid === undefined) throw new Error(`${what} is not running: ${JSON.stringify(plane.pids())}`);
      process.kill(pid, "SIGSTOP");
      undo.push(() => void process.kill(pid, "SIGCONT"));
    },
  };
}

async function binariesOf(isIt: (version: string) => boolean): Promise<ControlPlaneBinaries> {
  const built = await builtBinaries(BUILDABLE.find(isIt));
  if ("missing" in built) throw new Error(built.missing);
  return built;
}

function inNamespace(object: object, namespace: string): object {
  const { kind, metadata } = object as { readonly kind: string; readonly metadata: object }; // an object of stage.ts
  return CLUSTER_SCOPED.includes(kind) ? object : { ...object, metadata: { ...metadata, namespace } };
}
