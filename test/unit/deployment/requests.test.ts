/**
 * The requests of a sync, through the write gateway and our own client's paths, to the in-memory API server with its
 * validation.
 */
import { CORE_CACHE } from "../../../shared/controllers/registry/registry.ts";
import { describe, expect, it } from "vitest";
import type { KubeClient } from "../../../shared/kube/http/client.ts";
import { createReader } from "../../../shared/kube/http/reader.ts";
import { createWriter } from "../../../shared/kube/http/writer.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { controllerRef } from "../../../shared/kube/objects/owner-references.ts";
import { objectKey } from "../../../shared/kube/objects/resources.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import type { SyncResult } from "../../../shared/controllers/kit/run.ts";
import { builtInGateway } from "../../support/built-in-gateway.ts";
import { createSession } from "../../../shared/controllers/kit/sync/session.ts";
import { syncDeployment } from "../../../shared/controllers/deployment/sync/sync.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { createInProcessClient } from "../../../shared/api-server/in-process-client.ts";
import type { Row } from "../../../shared/store/ports/store.ts";
import { NOW_MS } from "./builders.ts";

interface Live extends KubeObject {
  readonly spec: {
    readonly replicas: number;
    readonly selector: { readonly matchLabels: object };
    readonly template: { readonly metadata: { readonly labels: object } };
  };
  readonly status?: { readonly replicas?: number; readonly conditions?: readonly { readonly type: string; readonly reason: string }[] };
}

const digester = createDigester("test key");
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const REPLICASETS = "/apis/apps/v1/namespaces/default/replicasets";

function start() {
  const clock = createVirtualClock(NOW_MS);
  const server = createApiServer({ clock, random: createSeededRandom(1) });
  const client = createInProcessClient(server, { component: "deltaloop-deployment" });
  // Copies, because in-process responses are the server's own objects.
  const json: KubeClient["json"] = async (call) => structuredClone(await client.json(call));
  const list = async (path: string): Promise<readonly Live[]> =>
    ((await json({ method: "GET", path })) as { items: readonly Live[] }).items;
  const rss = async (): Promise<readonly Live[]> => (await list(REPLICASETS)).toSorted((a, b) => revisionOf(a) - revisionOf(b));
  const rowOf = (resource: "deployments" | "replicasets", object: KubeObject): Row => {
    const owner = controllerRef(object.metadata)?.uid;
    const { name, uid, resourceVersion: rv } = object.metadata;
    return {
      key: objectKey("default", name),
      uid,
      rv,
      gone: false,
      object: strip(resource, object, digester),
      ...(owner !== undefined && { owner }),
    };
  };

  return {
    json,
    rss,
    web: async (): Promise<Live> => (await json({ method: "GET", path: `${DEPLOYMENTS}/web` })) as Live,
    patch: (path: string, body: object): Promise<unknown> =>
      json({ method: "PATCH", path, body, contentType: "application/merge-patch+json" }),
    /** Sets statuses as if all pods had become available immediately. */
    async settle(): Promise<void> {
      for (const { metadata, spec } of await list(REPLICASETS)) {
        const counts = { replicas: spec.replicas, readyReplicas: spec.replicas, availableReplicas: spec.replicas, terminatingReplicas: 0 };
        await this.patch(`${REPLICASETS}/${metadata.name}/status`, { status: { ...counts, observedGeneration: metadata.generation } });
      }
    },
    /** Runs one sync on an up-to-date cache. */
    async sync(): Promise<SyncResult> {
      const rows = (await list(REPLICASETS)).map((rs) => rowOf("replicasets", rs));
      const primary = rowOf("deployments", await this.web());
      const session = createSession(
        {
          clock,
          digester,
          registry: { ...CORE_CACHE, affectedKeys: [] },
          doorbells: { ring: () => Promise.resolve() },
          log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
          reader: createReader(client),
          gateway: builtInGateway(createWriter(client), "deployment", "act"),
          store: {
            readIndex: async () => ({ rows: [], primaries: [], counts: [] }),
            readSlices: async (slices) => slices.map(() => []),
            registerIntents: async () => "ok",
            correlateEvents: async () => [],
            markSuspect: async () => {},
            writeThrough: async (_run, { items }) => ({ kind: "ok", bells: [], outcomes: items.map(() => "changed") }),
          },
        },
        {
          epoch: "e1",
          controller: "deployment",
          key: "default/web",
          token: `t${String(clock.now())}`,
          mayWrite: () => true,
          snapshot: {
            primary,
            dependents: rows.filter(({ owner }) => owner === primary.uid),
            orphans: rows.filter(({ owner }) => owner === undefined),
            intents: [],
            failures: 0,
          },
        },
      );
      return syncDeployment(session);
    },
    async converge(): Promise<void> {
      for (let i = 0; i < 40; i++) {
        const before = JSON.stringify([await this.web(), await this.rss()]);
        const result = await this.sync();
        await this.settle();
        await clock.advance(1000);
        if (result.kind === "done" && before === JSON.stringify([await this.web(), await this.rss()])) return;
      }
      throw new Error("does not settle");
    },
  };
}

const revisionOf = ({ metadata }: KubeObject): number => Number(metadata.annotations?.["deployment.kubernetes.io/revision"] ?? 0);
const sizes = (rss: readonly Live[]): readonly number[] => rss.map(({ spec }) => spec.replicas);

const deployment = (spec: object = {}): object => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "web", namespace: "default", annotations: { note: "copied" } },
  spec: {
    replicas: 3,
    minReadySeconds: 1,
    revisionHistoryLimit: 1,
    selector: { matchLabels: { app: "web" } },
    template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "app", image: "app:v1" }] } },
    ...spec,
  },
});
const image = (name: string): object => ({ spec: { template: { spec: { containers: [{ name: "app", image: name }] } } } });

describe("on an API server", () => {
  it("creates, rolls out, cleans up and reports completion", async () => {
    const cluster = start();
    await cluster.json({ method: "POST", path: DEPLOYMENTS, body: deployment() });
    await cluster.converge();
    const [first] = await cluster.rss();
    const hash = first?.metadata.labels?.["pod-template-hash"] ?? "none";
    expect(first?.metadata.name).toBe(`web-${hash}`);
    expect(first?.metadata.annotations).toMatchObject({ note: "copied", "deployment.kubernetes.io/max-replicas": "4" });
    expect(first?.spec.selector.matchLabels).toEqual({ app: "web", "pod-template-hash": hash });
    expect(first?.spec.template.metadata.labels).toEqual({ app: "web", "pod-template-hash": hash });

    for (const name of ["app:v2", "app:v3"]) {
      await cluster.patch(`${DEPLOYMENTS}/web`, image(name));
      await cluster.converge();
    }
    expect(sizes(await cluster.rss())).toEqual([0, 3]);
    const web = await cluster.web();
    expect(revisionOf(web)).toBe(3);
    expect(web.status).toMatchObject({ observedGeneration: 3, replicas: 3, updatedReplicas: 3, availableReplicas: 3 });
    expect(web.status?.conditions?.map(({ type, reason }) => [type, reason])).toEqual([
      ["Available", "MinimumReplicasAvailable"],
      ["Progressing", "NewReplicaSetAvailable"],
    ]);

    // Returns to v2: its existing ReplicaSet gets a new revision and records its previous one.
    await cluster.patch(`${DEPLOYMENTS}/web`, image("app:v2"));
    await cluster.converge();
    expect((await cluster.rss()).at(-1)?.metadata.annotations).toMatchObject({
      "deployment.kubernetes.io/revision": "4",
      "deployment.kubernetes.io/revision-history": "2",
    });
  });

  it("scales, pauses and resumes", async () => {
    const cluster = start();
    await cluster.json({ method: "POST", path: DEPLOYMENTS, body: deployment() });
    await cluster.converge();
    await cluster.patch(`${DEPLOYMENTS}/web`, { spec: { paused: true, replicas: 5, ...(image("app:v2") as { spec: object }).spec } });
    await cluster.converge();
    expect(sizes(await cluster.rss())).toEqual([5]);
    expect((await cluster.web()).status?.conditions?.map(({ reason }) => reason)).toContain("DeploymentPaused");
    await cluster.patch(`${DEPLOYMENTS}/web`, { spec: { paused: false } });
    await cluster.converge();
    expect(sizes(await cluster.rss())).toEqual([0, 5]);
  });

  it("follows strategy Recreate", async () => {
    const cluster = start();
    await cluster.json({ method: "POST", path: DEPLOYMENTS, body: deployment({ strategy: { type: "Recreate" } }) });
    await cluster.converge();
    await cluster.patch(`${DEPLOYMENTS}/web`, image("app:v2"));
    await cluster.converge();
    expect(sizes(await cluster.rss())).toEqual([0, 3]);
  });

  it("releases and adopts ReplicaSets", async () => {
    const cluster = start();
    await cluster.json({ method: "POST", path: DEPLOYMENTS, body: deployment() });
    await cluster.converge();
    const [first] = await cluster.rss();
    const path = `${REPLICASETS}/${first?.metadata.name ?? ""}`;
    await cluster.patch(path, { metadata: { labels: { app: "else" } } });
    // The released ReplicaSet has the name that the new one needs.
    await expect(cluster.sync()).rejects.toThrow("already exists");
    expect(((await cluster.json({ method: "GET", path })) as KubeObject).metadata.ownerReferences ?? []).toEqual([]);
    await cluster.converge();
    expect(await cluster.rss()).toHaveLength(2);
    await cluster.patch(path, { metadata: { labels: { app: "web" } } });
    await cluster.converge();
    expect((await cluster.rss()).every(({ metadata }) => controllerRef(metadata)?.name === "web")).toBe(true);
    expect(sizes(await cluster.rss()).toSorted()).toEqual([0, 3]);
  });
});
