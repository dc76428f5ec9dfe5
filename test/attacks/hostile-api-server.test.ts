/**
 * Threat: the API server of one cluster answers whatever its administrator likes: redirects to another cluster, malformed objects, Leases and
 * streams, names of JavaScript's own properties. Who: the administrator of another cluster of the deployment. One process watches all
 * clusters and one runs all functions, so an answer that none of them expects must not end the process, delay another cluster, or send
 * anything to it.
 */
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { startEmbeddedClusters } from "../../cli/dev/embedded-clusters.ts";
import type { EmbeddedClusters } from "../../cli/dev/embedded-clusters.ts";
import type { JsonObject } from "../../shared/base/json.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { eventually } from "../support/eventually.ts";
import { kubeconfigOf } from "../support/kubeconfig.ts";
import { startMemoryApiServer } from "../support/memory-clusters.ts";
import type { MemoryApiServer } from "../support/memory-clusters.ts";
import { silentLog } from "../support/silent-log.ts";
import { pod, workload } from "./cluster.ts";

const NAMESPACE = "shop";
const DEPLOYMENTS = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments`;
const ROLLOUTS = 4;
const ROLLOUT_MS_MAX = 30_000;
const DEEP = 200_000;

/** What the server sends instead of a genuine answer; undefined for the genuine one. */
type Answer = (path: string, genuine: JsonObject, victim: string) => { code?: number; headers?: object; body: string } | undefined;

interface Lie {
  readonly name: string;
  readonly answer?: Answer;
  /** Replaces each line of a stream. */
  readonly line?: (genuine: string) => string;
}

const lists = (body: (genuine: JsonObject) => string): Answer => {
  return (path, genuine) => (/\/(?:pods|replicasets|deployments|replicationcontrollers)$/.test(path) ? { body: body(genuine) } : undefined);
};
const at = (part: string, body: unknown): Answer => {
  return (path) => (path.includes(part) ? { body: JSON.stringify(body) } : undefined);
};
const object = (metadata: unknown): string => JSON.stringify({ type: "ADDED", object: { metadata, spec: {}, status: {} } });
const leaseOf = (more: object): unknown => ({ metadata: { name: "x", resourceVersion: "1", ...more }, spec: null });

const LIES: readonly Lie[] = [
  ...[301, 302, 307, 308].map((code): Lie => ({
    name: `redirects with ${code}`,
    answer: (path, _, victim) => ({ code, headers: { location: victim + path }, body: "" }),
  })),
  { name: "lists null", answer: lists(() => "null") },
  { name: "lists an array", answer: lists(() => "[]") },
  { name: "lists without items", answer: lists((genuine) => JSON.stringify({ ...genuine, items: null })) },
  { name: "lists null items", answer: lists((genuine) => JSON.stringify({ ...genuine, items: [null, 1, "x", []] })) },
  { name: "lists without metadata", answer: lists(() => JSON.stringify({ items: [{}, { metadata: null }] })) },
  {
    name: "lists a resourceVersion that is a number",
    answer: lists(() => JSON.stringify({ metadata: { resourceVersion: 5 }, items: [] })),
  },
  {
    name: "lists a huge resourceVersion",
    answer: lists(() => JSON.stringify({ metadata: { resourceVersion: "9".repeat(1e5) }, items: [] })),
  },
  {
    name: "always returns a continue token",
    answer: lists((genuine) => JSON.stringify({ ...genuine, metadata: { resourceVersion: "5", continue: "x" } })),
  },
  { name: "nests a list deeply", answer: lists(() => `{"items":${"[".repeat(DEEP)}${"]".repeat(DEEP)}}`) },
  { name: "has a version that is a number", answer: at("/version", { gitVersion: 5 }) },
  { name: "has no version", answer: at("/version", null) },
  { name: "has no namespace kube-system", answer: at("/namespaces/kube-system", null) },
  { name: "has a uid that is an object", answer: at("/namespaces/kube-system", { metadata: { uid: {} } }) },
  { name: "has a Lease that is null", answer: at("/leases", null) },
  { name: "has a Lease without spec", answer: at("/leases", leaseOf({})) },
  { name: "has a Lease with terms that are an object", answer: at("/leases", leaseOf({ annotations: { "deltaloop.dev/terms": {} } })) },
  { name: "has a Lease with odd terms", answer: at("/leases", leaseOf({ annotations: { "deltaloop.dev/terms": "\n,.,-1.x,9e999" } })) },
  { name: "fails with an odd Status", answer: at("/apis", { kind: "Status", status: "Failure", code: "x", details: { causes: [null] } }) },
  { name: "asks to wait for a year", answer: () => ({ code: 429, headers: { "retry-after": "31536000" }, body: "{}" }) },
  { name: "streams null", line: () => "null" },
  { name: "streams an array", line: () => "[]" },
  { name: "streams a null object", line: () => '{"type":"ADDED","object":null}' },
  { name: "streams a null error", line: () => '{"type":"ERROR","object":null}' },
  { name: "streams an empty bookmark", line: () => '{"type":"BOOKMARK","object":{}}' },
  { name: "streams deep objects", line: () => `{"type":"ADDED","object":${"[".repeat(DEEP)}${"]".repeat(DEEP)}}` },
  { name: "streams metadata that is a string", line: () => object("x") },
  { name: "streams a name that is a number", line: () => object({ name: 5, namespace: NAMESPACE, uid: "u", resourceVersion: "7" }) },
  {
    name: "streams owners that are no list",
    line: () => object({ name: "a", namespace: NAMESPACE, uid: "u", resourceVersion: "7", ownerReferences: {} }),
  },
  {
    name: "streams a name of JavaScript",
    line: () =>
      object({ name: "__proto__", namespace: "constructor", uid: "__proto__", resourceVersion: "7", labels: { ["__proto__"]: "x" } }),
  },
  { name: "streams a name with a line feed", line: () => object({ name: "a\nb\u001f", namespace: "{}", uid: "\n", resourceVersion: "7" }) },
];

interface Liar {
  readonly url: string;
  readonly tokens: Set<string>;
  /** Answers and lines so far that were not genuine. */
  readonly lies: () => number;
  readonly server: Server;
}

async function startLiar(lie: Lie, victim: string): Promise<Liar> {
  const inner = createApiServer({ clock: createSystemClock(), random: createSystemRandom() });
  for (const [path, body] of [
    ["/api/v1/namespaces", { metadata: { name: NAMESPACE } }],
    [DEPLOYMENTS, workload("web", 2)],
    [`/api/v1/namespaces/${NAMESPACE}/pods`, pod("loner")],
  ] as const)
    await inner.request({ method: "POST", path, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const tokens = new Set<string>();
  let lies = 0;
  const server = createServer((request, response) => {
    tokens.add(String(request.headers["authorization"]));
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => void answer(Buffer.concat(chunks).toString()).catch(() => response.destroy()));
    const answer = async (body: string): Promise<void> => {
      const { pathname, searchParams } = new URL(request.url ?? "/", "http://x");
      const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
      const { method = "GET" } = request;
      const genuine = await inner.request({ method, path: pathname, query: searchParams, headers, ...(body !== "" && { body }) });
      if (genuine.kind === "watch") {
        response.writeHead(200, { "content-type": "application/json" });
        response.on("close", () => genuine.stream.end());
        for await (const events of genuine.stream.batches())
          for (const event of events) {
            if (lie.line) lies++;
            response.write(`${lie.line?.(JSON.stringify(event)) ?? JSON.stringify(event)}\n`);
          }
        response.end();
        return;
      }
      const text = genuine.kind === "object" ? genuine.body : {};
      const said = lie.answer?.(pathname, text as JsonObject, victim);
      if (said) lies++;
      response.writeHead(said?.code ?? genuine.status, { "content-type": "application/json", ...said?.headers });
      response.end(said?.body ?? JSON.stringify(text));
    };
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, tokens, lies: () => lies, server };
}

let victim: MemoryApiServer;
let embedded: EmbeddedClusters;
const liars: Liar[] = [];
const uncaught: unknown[] = [];
const onUncaught = (error: unknown): void => void uncaught.push(error);

beforeAll(async () => {
  process.on("unhandledRejection", onUncaught).on("uncaughtException", onUncaught);
  victim = await startMemoryApiServer("victim-canary");
  await victim.client.request("POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  const none = (): void => undefined;
  embedded = await startEmbeddedClusters({
    names: [],
    nodes: 1,
    logOf: () => silentLog,
    onInvocation: none,
    onSync: none,
    onChanges: none,
  });
  await writeFile(join(embedded.folder, "victim"), victim.kubeconfig);
  for (const [i, lie] of LIES.entries()) {
    const liar = await startLiar(lie, victim.url);
    liars.push(liar);
    await writeFile(join(embedded.folder, `liar-${i}`), kubeconfigOf({ server: liar.url }, { token: `liar-${i}-canary` }));
  }
});
afterAll(async () => {
  process.off("unhandledRejection", onUncaught).off("uncaughtException", onUncaught);
  await embedded.stop();
  await victim.stop();
  for (const { server } of liars) {
    server.closeAllConnections();
    server.close();
  }
});

it("no answer of another API server ends a process, delays a cluster, or sends credentials elsewhere", async () => {
  for (let n = 0; n < ROLLOUTS; n++) {
    await victim.client.request("POST", DEPLOYMENTS, workload(`web-${n}`, 2));
    await eventually(
      `the pods of web-${n} are available`,
      async () => {
        const { status } = await victim.client.request<{ status?: { availableReplicas?: number } }>("GET", `${DEPLOYMENTS}/web-${n}`);
        return status?.availableReplicas === 2;
      },
      ROLLOUT_MS_MAX,
    );
  }
  const honest = (): readonly string[] => LIES.flatMap(({ name }, i) => ((liars[i]?.lies() ?? 0) > 0 ? [] : [name]));
  await eventually("every API server has lied", () => honest().length === 0, ROLLOUT_MS_MAX).catch(() => expect(honest()).toEqual([]));
  expect(uncaught).toEqual([]);
  expect(new Set(victim.requests.map((request) => request.split(" ").at(-1)))).toEqual(new Set(["victim-canary"]));
  for (const [i, { tokens }] of liars.entries()) expect([...tokens], LIES[i]?.name).toEqual([`Bearer liar-${i}-canary`]);
});
