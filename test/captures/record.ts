/**
 * `node infra/nodejs-runtime/run.js test/captures/record.ts [NAME]…`: records the named scenes, or all, of upstream's own controllers on a
 * real control plane with scripted nodes, each in its own namespace. Records the watches with `deltaloop capture --no-redact`, and the
 * workload writes from the audit log. Both omit managedFields.
 */
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";

import { deltaloop, eventually, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { COMPARED_VERSION } from "../envtest/release-module.ts";
import { noteVersion } from "./releases.ts";

type Body = Readonly<Record<string, unknown>>;

interface Stage {
  readonly namespace: string;
  readonly create: (resource: string, body: Body) => Promise<void>;
  /** Sends a merge patch. */
  readonly patch: (path: string, body: Body) => Promise<void>;
  readonly remove: (path: string, propagation?: "Background" | "Foreground" | "Orphan") => Promise<void>;
  /** Names of pods that are not being deleted, oldest first. */
  readonly pods: () => Promise<readonly string[]>;
  /** Resolves when nothing has changed for 1.5 times the rest period of shadow.ts. */
  readonly rest: () => Promise<void>;
}

const REST_MS = 1_500;
/** Less than a Deployment's progressDeadlineSeconds. */
const HELD_SECONDS = 500;
const STEP_SECONDS = 3;
const FINALIZER = "example.com/held";
const labels = { app: "web" };
const template = { metadata: { labels }, spec: { containers: [{ name: "app", image: "app:v1" }], terminationGracePeriodSeconds: 1 } };
const spec = (replicas: number, more: Body = {}): Body => ({ replicas, selector: { matchLabels: labels }, template, ...more });
const replicaSet = (replicas: number): Body => ({ metadata: { name: "web", labels }, spec: spec(replicas) });
const controller = (replicas: number): Body => ({ metadata: { name: "web", labels }, spec: spec(replicas, { selector: labels }) });
const deployment = (replicas: number, more: Body = {}): Body => ({ metadata: { name: "web", labels }, spec: spec(replicas, more) });
const quota = (pods: number): Body => ({ metadata: { name: "few" }, spec: { hard: { pods: String(pods) } } });
const scaled = (replicas: number): Body => ({ spec: { replicas } });
const rolled = (version: string, more: Body = {}): Body => ({
  spec: { template: { spec: { containers: [{ name: "app", image: `app:${version}` }] } }, ...more },
});
const held = (given: Body): Body => ({ ...given, metadata: { ...(given["metadata"] as Body), finalizers: [FINALIZER] } });
const released: Body = { metadata: { finalizers: null } };
const notReady: Body = { status: { conditions: [{ type: "Ready", status: "False", lastTransitionTime: "2026-01-01T00:00:00Z" }] } };

/** The user requests of each scene; test/captures/README.md states their purpose. */
const SCENES: Readonly<Record<string, (stage: Stage) => Promise<void>>> = {
  async "not-ready-first"({ create, patch, pods, rest }) {
    await create("replicasets", replicaSet(5));
    await rest();
    const [, second = "", , fourth = ""] = await pods();
    for (const name of [second, fourth]) await patch(`pods/${name}/status`, notReady);
    await rest();
    await patch("replicasets/web", scaled(3));
    await rest();
    await patch("replicasets/web", scaled(1));
    await rest();
  },
  async settled({ create, patch, remove, pods, rest }) {
    await create("deployments", deployment(2));
    await rest();
    await patch("deployments/web", { metadata: { annotations: { note: "first" } } });
    await rest();
    const [oldest = ""] = await pods();
    await remove(`pods/${oldest}`);
    await rest();
    await patch("deployments/web", { metadata: { annotations: { note: "second" } } });
    await patch("deployments/web", scaled(4));
    await rest();
    await patch("deployments/web", scaled(1));
    await rest();
  },
  async "owner-deleted"({ create, patch, remove, pods, rest }) {
    await create("deployments", held(deployment(2)));
    await rest();
    await remove("deployments/web", "Orphan");
    await rest();
    await patch("deployments/web", scaled(3));
    await rest();
    const [oldest = ""] = await pods();
    await remove(`pods/${oldest}`);
    await rest();
    await patch("deployments/web", released);
    await rest();
  },
  async "replica-set-deleted"({ create, patch, remove, pods, rest }) {
    await create("replicasets", held(replicaSet(3)));
    await rest();
    await remove("replicasets/web", "Orphan");
    await rest();
    const [oldest = ""] = await pods();
    await remove(`pods/${oldest}`);
    await rest();
    await patch("replicasets/web", scaled(4));
    await rest();
    await patch("replicasets/web", released);
    await rest();
  },
  async "held-up"({ create, patch, pods, rest }) {
    const strategy = { rollingUpdate: { maxSurge: 2, maxUnavailable: 1 } };
    await create("deployments", deployment(9, { strategy, revisionHistoryLimit: 1 }));
    await rest();
    for (const version of ["v2", "v3"]) {
      await patch("deployments/web", rolled(version));
      await rest();
    }
    const [third = ""] = await pods();
    // A slow rollout, and in the middle of it another one, whose pods become ready but only minutes later available.
    await patch("deployments/web", rolled("v4", { minReadySeconds: STEP_SECONDS }));
    await sleep(STEP_SECONDS * 1_500);
    await patch("deployments/web", rolled("v5", { minReadySeconds: HELD_SECONDS }));
    await rest();
    const old = (await pods()).find((name) => name.startsWith(third.slice(0, third.lastIndexOf("-"))));
    if (old === undefined) throw new Error("the third rollout has no pods left: record again");
    await patch(`pods/${old}/status`, notReady);
    await rest();
    for (const replicas of [10, 14, 13, 7, 17, 11, 12, 6, 19, 8]) {
      await patch("deployments/web", scaled(replicas));
      await rest();
    }
    await patch("deployments/web", { spec: { minReadySeconds: 0 } });
    await rest();
  },
  async "one-by-one"({ create, patch, rest }) {
    const strategy = { rollingUpdate: { maxSurge: 0, maxUnavailable: "10%" } };
    await create("deployments", deployment(3, { strategy }));
    await rest();
    await patch("deployments/web", rolled("v2"));
    await rest();
  },
  async refused({ create, patch, rest }) {
    await create("resourcequotas", quota(2));
    await create("deployments", deployment(4));
    await rest();
    await patch("resourcequotas/few", quota(6));
    await rest();
    await patch("deployments/web", scaled(2));
    await rest();
  },
  async adopted({ create, patch, pods, rest }) {
    for (const name of ["early", "late"]) await create("pods", { metadata: { name, labels }, spec: template.spec });
    await rest();
    await create("replicasets", replicaSet(3));
    await rest();
    await patch("pods/early", { metadata: { labels: { app: "other" } } });
    await rest();
    const [, second = ""] = await pods();
    await patch(`pods/${second}`, { metadata: { labels: { app: "other" } } });
    await rest();
    await patch("pods/early", { metadata: { labels } });
    await rest();
  },
  async controller({ create, patch, remove, pods, rest }) {
    await create("pods", { metadata: { name: "early", labels }, spec: template.spec });
    await create("replicationcontrollers", controller(3));
    await rest();
    await patch("replicationcontrollers/web", scaled(5));
    await rest();
    const [oldest = "", , third = ""] = await pods();
    await patch(`pods/${third}/status`, notReady);
    await remove(`pods/${oldest}`);
    await rest();
    await patch("replicationcontrollers/web", scaled(2));
    await rest();
    await patch("pods/early", { metadata: { labels: { app: "other" } } }).catch(() => undefined);
    await rest();
  },
  async "controller-refused"({ create, patch, remove, rest }) {
    await create("resourcequotas", quota(1));
    await create("replicationcontrollers", held(controller(3)));
    await rest();
    await patch("resourcequotas/few", quota(4));
    await rest();
    await remove("replicationcontrollers/web", "Orphan");
    await rest();
    await patch("replicationcontrollers/web", released);
    await rest();
  },
};

interface Line {
  readonly object?: Metadata;
}

interface Metadata {
  readonly metadata?: {
    readonly namespace?: string;
    readonly creationTimestamp?: string;
    readonly deletionTimestamp?: string;
    readonly name: string;
  };
}

const wanted = process.argv.slice(2);
const cluster = await startCluster({ controllers: "all", auditAnswers: true });
try {
  for (const [name, play] of Object.entries(SCENES)) {
    if (wanted.length === 0 || wanted.includes(name)) await record(cluster, name, play);
  }
} finally {
  await cluster.stop();
}

async function record({ client, plane, ...rest }: Cluster, name: string, play: (stage: Stage) => Promise<void>): Promise<void> {
  const file = join(import.meta.dirname, `${name}.raw`);
  const core = `/api/v1/namespaces/${name}`;
  const pathOf = (path: string): string =>
    /^(?:deployments|replicasets)/.test(path) ? `/apis/apps/v1/namespaces/${name}/${path}` : `${core}/${path}`;
  await client.request("POST", "/api/v1/namespaces", { metadata: { name } });
  await eventually("the namespace has its service account", () => rest.get(`${core}/serviceaccounts/default`));
  const capture = deltaloop(["capture", "--no-redact", "-o", file, "--kubeconfig", plane.adminKubeconfig]);
  await capture.line("capturing");
  await sleep(REST_MS);
  await play({
    namespace: name,
    create: async (resource, body) => void (await client.request("POST", pathOf(resource), body)),
    patch: async (path, body) => {
      const type = path.endsWith("/status") ? "application/strategic-merge-patch+json" : "application/merge-patch+json";
      await client.request("PATCH", pathOf(path), body, type);
    },
    remove: async (path, propagationPolicy = "Background") => void (await client.request("DELETE", pathOf(path), { propagationPolicy })),
    async pods() {
      const pods = (await rest.list<Metadata>(`${core}/pods`)).filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
      return pods.map(({ metadata }) => metadata?.name ?? "").toSorted();
    },
    async rest() {
      for (let size = -1, now = 0; size !== now;) {
        size = now;
        await sleep(REST_MS);
        now = linesOf(await readFile(file, "utf8"), name).length;
      }
    },
  });
  await capture.stop();
  const watched = linesOf(await readFile(file, "utf8"), name);
  const audited = (await rest.audit()).filter(
    ({ verb, objectRef }) =>
      objectRef?.namespace === name &&
      ["create", "update", "patch", "delete"].includes(verb) &&
      ["deployments", "replicasets", "replicationcontrollers", "pods"].includes(objectRef.resource ?? "") &&
      objectRef.subresource !== "binding",
  );
  await keep(`${name}.watch`, watched);
  await keep(`${name}.audit`, audited);
  noteVersion(name, COMPARED_VERSION);
  await rm(file);
  process.stdout.write(`${name}: ${watched.length} lines, ${audited.length} writes\n`);
}

/** The capture's lines without a namespace (its header, bookmarks, ends of lists) and the lines of this namespace. */
function linesOf(text: string, namespace: string): readonly Line[] {
  const lines = text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line); // our own recorder's output
  return lines.filter(({ object }) => (object?.metadata?.namespace ?? namespace) === namespace);
}

async function keep(name: string, lines: readonly unknown[]): Promise<void> {
  const text = lines
    .map((line) => `${JSON.stringify(line, (key, value: unknown) => (key === "managedFields" ? undefined : value))}\n`)
    .join("");
  await writeFile(join(import.meta.dirname, `${name}.jsonl.gz`), gzipSync(text, { level: 9 }));
}
