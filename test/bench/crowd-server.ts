/**
 * An API server with a very large number of pods, on a loopback port; it implements only what a watcher in shadow mode requests. Objects
 * are generated while they are sent, so 150,000 of them need no memory and little time. Runs as a separate program, `node crowd-server.ts
 * PODS [pages]`, and prints its URL. It supports streaming lists (`sendInitialEvents`); with `pages`, only paginated lists, as API servers
 * before 1.34.
 *
 * `POST /bench/gone` ends the pod watches with 410 Expired, so that everything is listed again. `POST /bench/change?count=N` sends N
 * changes, each of another pod, and responds once they are sent. `GET /bench/lists` returns the number of pods listed so far.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { owner, podObject, replicaSetObject } from "./objects.ts";

const PODS = Number(process.argv[2]);
const PAGES = process.argv[3] === "pages";
const PODS_EACH = 100;
/** The number of objects of each kind. */
const TOTALS = { pods: PODS, replicasets: PODS / PODS_EACH, deployments: 0, replicationcontrollers: 0 } as const;
const KINDS = {
  pods: "Pod",
  replicasets: "ReplicaSet",
  deployments: "Deployment",
  replicationcontrollers: "ReplicationController",
} as const;
/** The resourceVersion of every list, which is higher than that of all objects. */
const LIST_RV = "9000000";
const FIRST_RV = 1_000;

const watchesOfPods = new Set<ServerResponse>();
let listed = 0;
let changes = 0;

const server = createServer((request, response) => {
  const { pathname, searchParams: query } = new URL(request.url ?? "/", "http://localhost");
  request.resume();
  if (pathname === "/version") return answer(response, { gitVersion: KUBERNETES_VERSION });
  if (pathname === "/bench/gone") return gone(response);
  if (pathname === "/bench/change") return void change(Number(query.get("count")), response);
  if (pathname === "/bench/lists") return answer(response, { listed });
  if (pathname.endsWith("/namespaces/kube-system"))
    return answer(response, { kind: "Namespace", metadata: { name: "kube-system", uid: `crowd-${PODS}` } });
  if (pathname.endsWith("/selfsubjectaccessreviews")) return answer(response, { status: { allowed: true } });
  const kind = Object.keys(KINDS).find((one): one is keyof typeof KINDS => pathname.endsWith(`/${one}`));
  if (kind === undefined || request.method !== "GET")
    return answer(response, { kind: "Status", code: 404, reason: "NotFound", message: pathname }, 404);
  if (query.get("watch") === "true" || query.get("watch") === "1") return void watch(kind, query, response);
  list(kind, query, response);
});

function list(kind: keyof typeof KINDS, query: URLSearchParams, response: ServerResponse): void {
  const total = TOTALS[kind];
  const from = Number(query.get("continue") ?? 0);
  const to = Math.min(total, from + Number(query.get("limit") ?? total));
  const items: object[] = [];
  for (let i = from; i < to; i++) items.push(objectOf(kind, i));
  if (kind === "pods") listed += items.length;
  const metadata = { resourceVersion: LIST_RV, ...(to < total && { continue: String(to) }) };
  answer(response, { kind: `${KINDS[kind]}List`, apiVersion: "v1", metadata, items });
}

function objectOf(kind: keyof typeof KINDS, i: number): object {
  if (kind !== "pods") return replicaSetObject(owner(i), String(FIRST_RV + i), PODS_EACH);
  const of = owner(Math.floor(i / PODS_EACH));
  return podObject(i, of, String(FIRST_RV + i));
}

async function watch(kind: keyof typeof KINDS, query: URLSearchParams, response: ServerResponse): Promise<void> {
  const sendsAll = query.get("sendInitialEvents") === "true";
  if (sendsAll && PAGES) {
    const message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    return answer(response, { kind: "Status", status: "Failure", reason: "Invalid", code: 422, message }, 422);
  }
  response.writeHead(200, { "content-type": "application/json" });
  response.flushHeaders();
  if (kind === "pods") {
    watchesOfPods.add(response);
    response.on("close", () => watchesOfPods.delete(response));
  }
  if (sendsAll) {
    for (let i = 0; i < TOTALS[kind]; i++) {
      if (!response.write(`${JSON.stringify({ type: "ADDED", object: { ...objectOf(kind, i) } })}\n`)) await drained(response);
      if (kind === "pods") listed++;
    }
    response.write(bookmark(kind, { "k8s.io/initial-events-end": "true" }));
  }
  const timer = setInterval(() => response.write(bookmark(kind)), 10_000);
  response.on("close", () => clearInterval(timer));
}

function bookmark(kind: keyof typeof KINDS, annotations?: object): string {
  const metadata = { resourceVersion: LIST_RV, ...(annotations && { annotations }) };
  return `${JSON.stringify({ type: "BOOKMARK", object: { kind: KINDS[kind], apiVersion: "v1", metadata } })}\n`;
}

/** Resolves once the bytes were sent or the client disconnected. */
async function drained(response: ServerResponse): Promise<void> {
  const done = new AbortController();
  const { signal } = done;
  if (!response.destroyed) await Promise.race([once(response, "drain", { signal }), once(response, "close", { signal })]);
  done.abort();
}

function gone(response: ServerResponse): void {
  const object = { kind: "Status", status: "Failure", reason: "Expired", code: 410, message: "too old resource version" };
  for (const one of watchesOfPods) one.end(`${JSON.stringify({ type: "ERROR", object })}\n`);
  answer(response, { ended: watchesOfPods.size });
}

async function change(count: number, response: ServerResponse): Promise<void> {
  for (let i = 0; i < count; i++, changes++) {
    const number = changes % PODS;
    const object = podObject(number, owner(Math.floor(number / PODS_EACH)), String(Number(LIST_RV) + 1 + changes), changes % 2 === 0);
    const line = `${JSON.stringify({ type: "MODIFIED", object })}\n`;
    for (const watcher of watchesOfPods) if (!watcher.write(line)) await drained(watcher);
  }
  answer(response, { changes });
}

function answer(response: ServerResponse, body: object, code = 200): void {
  const text = JSON.stringify(body);
  response.writeHead(code, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  response.end(text);
}

server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}\n`);
});
