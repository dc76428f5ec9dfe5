/** The counting laws of design.md that need no Redis: what the watcher stores per object, and what an idle system does. */
import { testSigner } from "../support/signer.ts";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";

import { functionHandlers } from "../../cli/functions/functions.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { LaneSender } from "../../shared/controllers/cache/watcher/lane-sender.ts";
import { VersionSet } from "../../shared/controllers/cache/watcher/listed-rows.ts";
import { ResourceStream } from "../../shared/controllers/cache/watcher/resource-stream.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { KubeApiError } from "../../shared/kube/client/errors.ts";
import type { KubeWatch } from "../../shared/kube/client/kube.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import { createSimulatedKube } from "../simulation/kube.ts";
import { shareOf } from "../support/share.ts";
import { silentLog } from "../support/silent-log.ts";
import { rawClientIn } from "../support/raw-client.ts";

const START_MS = Date.parse("2026-03-01T10:00:00Z");
const MINUTE_MS = 60_000;
const CLUSTER = "0123456789ab";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const UPSTREAM_EVENT_WRITES = 33;

/** The whole system on memory adapters, with five nodes and a virtual clock. */
async function startSystem() {
  const clock = createVirtualClock(START_MS);
  const random = createSeededRandom(1);
  const server = createApiServer({ clock, random });
  const digester = createDigester("laws");
  const backend = memoryBackend({ clock, random, digester, deployment: "laws", cluster: CLUSTER });
  const { store } = backend;
  const kube = (component: string) => createSimulatedKube({ server, clock, random, component, faults: () => ({ api: 0, watch: 0 }) });
  const takes: string[] = [];
  const counted: Store = { ...store, take: (run, known) => (takes.push(run.key), store.take(run, known)) };
  const fleet = { count: 5, clock, random, bindPods: true };
  const system = assembleSystem(
    {
      ...{ clock, random, digester, signer: testSigner(CLUSTER), log: silentLog, kube, functions: functionHandlers },
      ...backend,
      functionStore: counted,
    },
    {
      cluster: CLUSTER,
      clusterUid: "uid",
      lease: { namespace: "kube-system", name: "laws" },
      nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "nodes" }), fleet, ends),
    },
  );
  await clock.advance(5_000);
  const stop = async (): Promise<void> => {
    const stopped = system.stop();
    await clock.advance(MINUTE_MS);
    await stopped;
    server.close();
  };
  return { clock, server, takes, person: rawClientIn(server), stop };
}

type RawClient = ReturnType<typeof rawClientIn>;

function createDeployment(person: RawClient, replicas: number): Promise<unknown> {
  const template = { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "main", image: "web:1" }] } };
  const spec = { replicas, selector: { matchLabels: { app: "web" } }, template };
  const body = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec };
  return person.request("POST", DEPLOYMENTS, body);
}

async function statusOf(person: RawClient): Promise<{ readonly availableReplicas?: number; readonly updatedReplicas?: number }> {
  return (await person.request("GET", `${DEPLOYMENTS}/web`))["status"] as Awaited<ReturnType<typeof statusOf>>; // a Deployment
}

it("while idle for five minutes, runs no sync and writes only Leases and node statuses", async () => {
  const { clock, server, takes, person, stop } = await startSystem();
  await createDeployment(person, 5);
  await clock.advance(MINUTE_MS);
  expect((await statusOf(person)).availableReplicas).toBe(5);

  const writes: string[] = [];
  server.onRequest(({ verb, resource, userAgent }) => {
    if (!["get", "list", "watch"].includes(verb) && resource !== "leases" && userAgent !== "nodes")
      writes.push(`${userAgent} ${verb} ${resource}`);
  });
  takes.length = 0;
  await clock.advance(5 * MINUTE_MS);
  expect(writes).toEqual([]);
  expect(takes).toEqual([]);
  await stop();
});

/** Upstream's controller manager sends 33 POSTs and PATCHes of Events for the same rollout. */
it("[informer T81] a rolling update of 200 pods writes no more Events than upstream", async () => {
  const { clock, server, person, stop } = await startSystem();
  await createDeployment(person, 200);
  await clock.advance(2 * MINUTE_MS);
  expect((await statusOf(person)).availableReplicas).toBe(200);

  const writes: string[] = [];
  server.onRequest(({ verb, resource }) => {
    if (resource === "events") writes.push(verb);
  });
  const spec = { template: { spec: { containers: [{ name: "main", image: "web:2" }] } } };
  await person.request("PATCH", `${DEPLOYMENTS}/web`, { spec }, "application/strategic-merge-patch+json");
  await clock.advance(5 * MINUTE_MS);
  expect(await statusOf(person)).toMatchObject({ availableReplicas: 200, updatedReplicas: 200 });
  expect(new Set(writes)).toEqual(new Set(["create", "patch"]));
  expect(writes.length).toBeLessThanOrEqual(UPSTREAM_EVENT_WRITES);
  await stop();
});

const collectGarbage = garbageCollector();
const PODS = 40_000;
const PAGE = 500;
const BYTES_PER_OBJECT = 120;
/** Permitted growth in bytes per object: the heap varies by about 100 KiB whatever is listed. */
const BYTES_PER_OBJECT_FORGOTTEN = 5;

it.each(
  shareOf(
    [
      { name: "WatchList, all objects cached at an older version", cached: true, streamed: true },
      { name: "paged list, all objects cached at an older version", cached: true, streamed: false },
      { name: "paged list, nothing cached", cached: false, streamed: false },
    ],
    1,
  ),
)(
  "the watcher keeps at most 120 bytes and the key of each object during a list ($name), and nothing afterwards",
  async ({ cached, streamed }) => {
    const resource: "pods" | "replicasets" = streamed ? "replicasets" : "pods"; // lists of pods are not streamed
    const ends = new AbortController();
    const clock = createVirtualClock(START_MS);
    const digester = createDigester("laws");
    let messages = 0;
    const queue = { send: (entries: readonly unknown[]) => ((messages += entries.length), Promise.resolve({ failed: [] })) };
    const sender = new LaneSender(
      { queue, clock, random: createSeededRandom(1), signer: testSigner(CLUSTER), log: silentLog },
      { cluster: CLUSTER, resource, lanes: 16, epoch: "e", fence: "1" },
      ends.signal,
    );
    const heap = { before: 0, listing: 0, after: 0 };
    const kube: KubeWatch = {
      async listPage(_resource: CachedResource, query) {
        const start = Number(query.continue ?? 0);
        if (start + PAGE >= PODS) heap.listing = heapUsed();
        // parsed like a page of a list
        const items = JSON.parse(`[${Array.from({ length: PAGE }, (_, i) => podText(start + i)).join(",")}]`) as readonly unknown[];
        return { resourceVersion: "9000000", items, ...(start + PAGE < PODS && { continue: String(start + PAGE) }) };
      },
      newestVersion: () => Promise.resolve("9000000"),
      async *watch(_resource, { sendInitialEvents }) {
        if (sendInitialEvents && !streamed) throw new KubeApiError({ code: 422, reason: "Invalid" });
        for (let start = 0; sendInitialEvents && start < PODS; start += PAGE) {
          if (start + PAGE >= PODS) heap.listing = heapUsed();
          yield Array.from({ length: PAGE }, (_, i) => `{"type":"ADDED","object":${podText(start + i)}}`);
        }
        if (sendInitialEvents)
          yield [
            '{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9000000","annotations":{"k8s.io/initial-events-end":"true"}}}}',
          ];
        await clock.after(1_000); // until the manifests are sent
        heap.after = heapUsed();
        ends.abort(new Error("seen enough"));
        yield [];
      },
    };
    const ports = {
      kube,
      clock,
      random: createSeededRandom(1),
      digester,
      log: silentLog,
      quarantine: () => Promise.reject(new Error("unexpected quarantine")),
    };
    const feed = {
      view: resource,
      sink: sender,
      openGeneration: () => Promise.resolve({ generation: 1, floor: "0" }),
      ...(cached && {
        cachedVersions: () =>
          Promise.resolve(new VersionSet(Array.from({ length: PODS }, (_, i) => VersionSet.hashOf(keyText(i), uidText(i), "1")))),
      }),
    };
    const stream = new ResourceStream({ ...ports, feeds: [feed] }, resource, undefined);
    heap.before = heapUsed();
    let ended = false;
    const running = stream.run(ends.signal).finally(() => (ended = true));
    while (!ended) await clock.advance(100);
    await running;
    const each = (bytes: number): number => (bytes - heap.before) / PODS;
    expect(messages).toBeGreaterThan(PODS / 100);
    expect(each(heap.listing)).toBeLessThanOrEqual(BYTES_PER_OBJECT + keyText(0).length);
    expect(each(heap.after)).toBeLessThanOrEqual(BYTES_PER_OBJECT_FORGOTTEN);
  },
);

function keyText(number: number): string {
  return `production/web-frontend-7f8fb6d5c9-${number.toString(36).padStart(5, "0")}`;
}

function uidText(number: number): string {
  return `9d3b7c52-1f4e-4a6b-8c0d-${number.toString(16).padStart(12, "0")}`;
}

function podText(number: number): string {
  const [namespace, name] = keyText(number).split("/");
  return JSON.stringify({
    metadata: {
      namespace,
      name,
      uid: uidText(number),
      resourceVersion: String(8_000_000 + number),
      labels: { app: "web-frontend" },
      creationTimestamp: "2026-03-01T10:00:00Z",
    },
    spec: { nodeName: `node-${number}`, containers: [{ name: "main", image: "web:1" }] },
    status: { phase: "Running" },
  });
}

/** Bytes of objects and strings, and of buffers outside the heap. */
function heapUsed(): number {
  for (let times = 0; times < 3; times++) collectGarbage(); // buffers are freed one collection later
  const { heapUsed: used, arrayBuffers } = process.memoryUsage();
  return used + arrayBuffers;
}

function garbageCollector(): () => void {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void; // the function that the flag exposes
}
