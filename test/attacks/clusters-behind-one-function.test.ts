/**
 * Threat: a cluster of a directory makes a function of all clusters send requests or credentials to another cluster. Who: its administrator,
 * who controls its API server and what it answers, and whose messages may name any cluster. Before: a function in Lambda served one cluster.
 *
 * The router, the credentials and the clients are the deployed ones; Parameter Store and the Stores are in memory. Two API servers count what
 * they receive. Every record that a handler gets makes its run read a Deployment, so a record in wrong hands is a request.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import type { Context, SQSRecord } from "aws-lambda";
import { it as base, expect } from "vitest";

import { createApplierFunction } from "../../shared/controllers/lambda/applier-function.ts";
import { createClusterValues, REFUSED_MS } from "../../shared/controllers/lambda/clusters/cluster-values.ts";
import { serveRecords } from "../../shared/controllers/lambda/clusters/deployed-for-clusters.ts";
import { liveOf } from "../../shared/controllers/lambda/clusters/directory-configuration.ts";
import { createServedClusters, IDLE_MS } from "../../shared/controllers/lambda/clusters/served-clusters.ts";
import { fixedConfiguration } from "../../shared/controllers/lambda/live-configuration.ts";
import type { SqsHandler } from "../../shared/controllers/lambda/sqs-handler.ts";
import type { WiredFunction } from "../../shared/controllers/lambda/wire-function.ts";
import { signBody } from "../../shared/controllers/cache/messages/signed-body.ts";
import { joinHeartbeats } from "../../shared/controllers/cache/messages/heartbeats.ts";
import { clusterValueText } from "../../shared/kube/kubeconfig/clusters/cluster-value.ts";
import { clusterId } from "../../shared/kube/kubeconfig/clusters/directory.ts";
import { kubeconfigFrom } from "../../shared/kube/kubeconfig/schema.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { doorbellParts } from "../../shared/store/ports/doorbells.ts";
import { createSigner } from "../../shared/store/signer.ts";
import { DIRECTORY_CONFIGURATION, MAC_KEYS } from "../support/directory-configuration.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { silentLog } from "../support/silent-log.ts";

const ROLE = "deltaloop-sync-replicaset";
const PATH = `/clusters/${ROLE}`;

interface ApiServer {
  readonly url: string;
  /** Path and token of each request. */
  readonly requests: string[];
  /** Answers the next requests; default 404. */
  answer: (token: string) => { readonly status: number; readonly headers?: Readonly<Record<string, string>> };
}

interface Harness {
  readonly evil: ApiServer;
  readonly good: ApiServer;
  nowMs: number;
  /** The host of each counted request. */
  readonly hosts: string[];
  /** Actions of Parameter Store. */
  readonly reads: string[];
  /** Writes a value for a server and returns the cluster's id. */
  list(name: string, server: ApiServer, token?: string): string;
  remove(cid: string): void;
  /** Writes the value of a cluster to another one's parameter. */
  copy(from: string, to: string): void;
  route(records: "deltas" | "doorbells", ...bodies: readonly string[]): Promise<readonly string[]>;
  drop(): void;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const [evil, good] = [await startServer(), await startServer()];
    const stored = new Map<string, { readonly version: string; readonly text: string }>();
    const given = async (call: string, names: readonly string[]) => {
      if (names.length > 0) harness.reads.push(call);
      return await Promise.resolve(new Map([...stored].filter(([name]) => names.includes(name))));
    };
    const clock = { now: () => harness.nowMs };
    const values = createClusterValues({
      ...{ place: "ssm:/clusters", role: ROLE, allowed: new Set(["loopback", "insecure"] as const), clock, log: silentLog },
      random: { next: () => 0 },
      parameters: {
        versions: async () => await Promise.resolve(new Map()),
        versionsOf: async (names) => new Map([...(await given("confirm", names))].map(([name, { version }]) => [name, version])),
        values: async (names) => await given("decrypt", names),
      },
    });
    const live = fixedConfiguration(DIRECTORY_CONFIGURATION);
    const served = createServedClusters<SqsHandler>({
      ...{ component: "replicaset", role: ROLE, live, values, clock, log: silentLog },
      allowed: new Set(["loopback", "insecure"]),
      metrics: {
        observe: () => undefined,
        gauge: () => undefined,
        count: (_name: string, labels: Readonly<Record<string, string>>) => harness.hosts.push(labels["host"] ?? ""),
      } as never, // what the client calls
      shared: {
        makeStore: (options) => createMemoryStore({ ...options, clock: createSystemClock() }),
        sqs: { call: () => Promise.reject(new Error("unexpected call of SQS")), close: () => undefined } as never,
        close: () => undefined,
      },
      create: readingOnEachRecord,
    });
    const harness: Harness = {
      ...{ evil, good, nowMs: 1_000_000, reads: [], hosts: [] },
      list(name, { url: server }, token = `token of ${name}`.replaceAll(" ", "-")) {
        const config = kubeconfigFrom(JSON.parse(kubeconfigOf({ server }, { token })), "test");
        const cid = clusterId(name, config);
        const version = String(Number(stored.get(`${PATH}/${cid}`)?.version ?? 0) + 1);
        stored.set(`${PATH}/${cid}`, { version, text: clusterValueText({ name, isPaused: false, config }) });
        return cid;
      },
      remove: (cid) => void stored.delete(`${PATH}/${cid}`),
      copy: (from, to) => void stored.set(`${PATH}/${to}`, { version: "9", text: stored.get(`${PATH}/${from}`)?.text ?? "" }),
      async route(records, ...bodies) {
        const Records = bodies.map((body, i) => ({ messageId: `m${i}`, body, receiptHandle: "", attributes: {} })) as SQSRecord[]; // all that functions read
        const context = { getRemainingTimeInMillis: () => 30_000 } as Context;
        const answer = await serveRecords(records, { live, clusters: served, log: silentLog })({ Records }, context);
        return (answer?.batchItemFailures ?? []).map(({ itemIdentifier }) => itemIdentifier);
      },
      drop: () => served.drop(),
    };
    await use(harness);
    for (const { close } of [evil, good]) close();
  },
});

/** Applies deltas as deployed; a doorbell reads a Deployment with the client of its cluster. */
function readingOnEachRecord(wiring: WiredFunction): SqsHandler {
  const apply = createApplierFunction(wiring);
  return async (event, context) => {
    const [first] = event.Records;
    if (first === undefined || !first.body.startsWith("{")) return await apply(event, context);
    for (const { body } of event.Records) {
      const { c } = JSON.parse(body) as { readonly c: string };
      await wiring.cluster(c)?.reader.get("deployments", "shop", "web");
    }
    return { batchItemFailures: [] };
  };
}

async function startServer(): Promise<ApiServer & { close(): void }> {
  const server = createServer((request, response) => {
    const token = request.headers.authorization?.replace("Bearer ", "") ?? "none";
    api.requests.push(`${request.url?.split("?")[0]} ${token}`);
    const { status, headers = {} } = api.answer(token);
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(
      JSON.stringify({
        kind: "Status",
        apiVersion: "v1",
        status: "Failure",
        code: status,
        reason: status === 404 ? "NotFound" : "Unauthorized",
      }),
    );
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a TCP server has one
  const api: ApiServer & { close(): void } = {
    ...{ url: `http://127.0.0.1:${port}`, requests: [], answer: () => ({ status: 404 }) },
    close: () => void server.close(),
  };
  return api;
}

const READ = "/apis/apps/v1/namespaces/shop/deployments/web";

function doorbell(claims: string, signs: string, key = "shop/web"): string {
  const bell = { c: claims, ctl: "replicaset", e: "e1", k: key };
  return JSON.stringify({ v: 1, ...bell, m: createSigner(MAC_KEYS, signs).sign("d", doorbellParts(bell)) });
}

function delta(claims: string, signs: string, within = claims): string {
  const signed = signBody(createSigner(MAC_KEYS, signs), signs, JSON.stringify({ v: 2, c: within, r: "pods" }));
  return claims + signed.slice(signs.length);
}

it("a genuine doorbell makes a request with its cluster's token, to its cluster only", async ({ harness }) => {
  const [evil, good] = [harness.list("evil", harness.evil), harness.list("good", harness.good)];
  expect(await harness.route("doorbells", doorbell(evil, evil), doorbell(good, good))).toEqual([]);
  expect(harness.evil.requests).toEqual([`${READ} token-of-evil`]);
  expect(harness.good.requests).toEqual([`${READ} token-of-good`]);
  expect(harness.hosts, "metrics have no series for each cluster").toEqual(["clusters", "clusters"]);
});

it.for([
  { name: "with its own signature", bell: (evil: string, good: string) => doorbell(good, evil) },
  {
    name: "with a signature of another key",
    bell: (evil: string, good: string) => doorbell(good, evil).replace(`"c":"${good}"`, `"c":"${good}","x":1`),
  },
  {
    name: "with the other's id added to its own",
    bell: (evil: string, good: string) => doorbell(evil, evil).replace("{", `{"c":"${good}",`).replace(`"c":"${evil}",`, ""),
  },
])(
  "a doorbell that names the other cluster $name causes no request, whether or not that cluster is served already",
  async ({ bell }, { harness }) => {
    const [evil, good] = [harness.list("evil", harness.evil), harness.list("good", harness.good)];
    for (const before of [[], [doorbell(good, good)]]) {
      await harness.route("doorbells", ...before);
      expect(await harness.route("doorbells", bell(evil, good))).toEqual([]);
      expect(harness.good.requests).toHaveLength(before.length);
    }
    expect(harness.evil.requests).toEqual([]);
  },
);

it("a delta or heartbeat that names the other cluster causes no request, and reads no credentials of it", async ({ harness }) => {
  const [evil, good] = [harness.list("evil", harness.evil), harness.list("good", harness.good)];
  await harness.route("deltas", delta(evil, evil));
  harness.reads.length = 0;
  const line = signBody(createSigner(MAC_KEYS, evil), evil, "{}", "h");
  const forged = [delta(good, evil), delta(good, evil, good), joinHeartbeats([good + line.slice(evil.length)]), "odd", `${good}.x.y`];
  expect(await harness.route("deltas", ...forged)).toEqual([]);
  expect(harness.reads, "unsigned messages read no parameter").toEqual([]);
  await harness.route("deltas", delta(evil, evil, good));
  expect([harness.evil.requests, harness.good.requests]).toEqual([[], []]);
});

it("a server that redirects its client sends neither requests nor credentials to the other", async ({ harness }) => {
  const evil = harness.list("evil", harness.evil);
  harness.list("good", harness.good);
  harness.evil.answer = () => ({ status: 307, headers: { location: `${harness.good.url}${READ}` } });
  await harness.route("doorbells", doorbell(evil, evil));
  expect(harness.evil.requests.length).toBeGreaterThan(0);
  expect(harness.good.requests).toEqual([]);
});

it("a cluster that returns under its name with another server gets none of the former credentials", async ({ harness }) => {
  const former = harness.list("blue", harness.good, "former");
  await harness.route("doorbells", doorbell(former, former));
  harness.remove(former);
  const now = harness.list("blue", harness.evil, "present");
  harness.nowMs += 60_000;
  await harness.route("doorbells", doorbell(former, former), doorbell(now, now));
  expect(harness.good.requests, "no request after the removal").toEqual([`${READ} former`]);
  expect(harness.evil.requests).toEqual([`${READ} present`]);
});

it("a value of another cluster's parameter is refused, even if a writer of parameters puts it there", async ({ harness }) => {
  const [evil, good] = [harness.list("evil", harness.evil, "stolen"), harness.list("good", harness.good)];
  harness.copy(good, evil);
  await harness.route("doorbells", doorbell(good, good), doorbell(evil, evil));
  expect([harness.evil.requests, harness.good.requests], "neither cluster is served with the good one's token").toEqual([
    [],
    [`${READ} token-of-good`],
  ]);
});

it("a server that refuses every credential causes one read of its parameter in 15 s, and renewed credentials count at once", async ({
  harness,
}) => {
  const [evil, good] = [harness.list("evil", harness.evil), harness.list("good", harness.good)];
  harness.evil.answer = (token) => ({ status: token === "renewed" ? 404 : 401 });
  await harness.route("doorbells", doorbell(evil, evil), doorbell(good, good));
  harness.reads.length = 0;
  for (let i = 0; i < 5; i++) await harness.route("doorbells", doorbell(evil, evil));
  expect(harness.reads.length).toBeLessThanOrEqual(1);
  harness.nowMs += REFUSED_MS;
  harness.list("evil", harness.evil, "renewed");
  await harness.route("doorbells", doorbell(evil, evil));
  expect(harness.evil.requests.at(-1)).toBe(`${READ} renewed`);
  expect(new Set(harness.evil.requests)).toEqual(new Set([`${READ} token-of-evil`, `${READ} renewed`]));
  expect(harness.good.requests).toEqual([`${READ} token-of-good`]);
});

it("what an unused cluster was served with is dropped, and made again from its own value", async ({ harness }) => {
  const [evil, good] = [harness.list("evil", harness.evil), harness.list("good", harness.good)];
  await harness.route("doorbells", doorbell(evil, evil), doorbell(good, good));
  harness.nowMs += IDLE_MS;
  harness.drop();
  await harness.route("doorbells", doorbell(good, good));
  expect(harness.good.requests).toEqual([`${READ} token-of-good`, `${READ} token-of-good`]);
  expect(liveOf(fixedConfiguration(DIRECTORY_CONFIGURATION), { cid: good, server: harness.good.url }).current).toMatchObject({
    cluster: good,
  });
});
