/** The fault-injecting API server as a proxy for the in-memory one. */
import { request as httpRequest } from "node:http";

import { afterEach, describe, expect, it } from "vitest";

import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import { askedOf, createFaultInjector, WRITES } from "../fault-profile/fault-profile.ts";
import type { Fault, FaultRule, Often, Verb } from "../fault-profile/fault-profile.ts";
import {
  CONFLICT,
  deniedByWebhook,
  INTERNAL_ERROR,
  namespaceTerminating,
  tooManyRequests,
  unavailable,
} from "../fault-profile/refusals.ts";
import { startFaultInjectingServer } from "../fault-profile/server.ts";
import type { FaultInjectingServer } from "../fault-profile/server.ts";
import { kubeConformance } from "./kube.ts";

async function startWithFaults(...rules: readonly FaultRule[]): Promise<{ readonly road: FaultInjectingServer; close(): Promise<void> }> {
  const server = createApiServer({ clock: createSystemClock(), random: createSeededRandom(1) });
  const http = await serveHttp(server);
  const road = await startFaultInjectingServer({ url: http.url, rules });
  const close = async (): Promise<void> => {
    await road.close();
    await http.close();
    server.close();
  };
  return { road, close };
}

const rule = (fault: Fault, often: Often = "always", about: FaultRule["about"] = {}): FaultRule => ({
  name: fault.kind,
  about,
  often,
  fault,
});

/** All verbs except watch: the Reflector reopens a rejected watch with its own delays (informer §2.4), not the client. */
const CALLS: readonly Verb[] = ["get", "list", ...WRITES];

const SUITES: readonly { readonly name: string; readonly rules: readonly FaultRule[] }[] = [
  { name: "without faults", rules: [] },
  {
    name: "with the faults that client-go hides",
    rules: [
      rule({ kind: "refuse", with: tooManyRequests(0) }, { every: 3 }, { verbs: CALLS }),
      rule({ kind: "refuse", with: unavailable(0) }, { every: 5 }, { verbs: CALLS }),
      rule({ kind: "admitSlowly", ms: 40 }, { every: 2 }),
      rule({ kind: "addFields" }),
    ],
  },
];

for (const { name, rules } of SUITES) {
  kubeConformance(`a fault-injecting API server ${name}`, async () => {
    const { road, close } = await startWithFaults(...rules);
    const kube = createKubeHttp({ server: road.url, component: "conformance" });
    await kube.create({
      resource: "namespaces",
      namespace: "",
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "suite" } },
    });
    return { kube, namespace: "suite", close };
  });
}

interface Heard {
  /** The status code; undefined if the connection was closed before the response started. */
  readonly code?: number;
  readonly retryAfter?: string;
  readonly text: string;
  readonly broke: boolean;
  readonly ms: number;
}

/** Sends one request without retries. */
function ask(url: string, method: string, body?: object): Promise<Heard> {
  const from = performance.now();
  return new Promise((resolve) => {
    let heard: Omit<Heard, "broke" | "ms"> = { text: "" };
    const end = (broke: boolean): void => resolve({ ...heard, broke, ms: performance.now() - from });
    const request = httpRequest(url, { method, headers: { "content-type": "application/json" } }, (response) => {
      const retryAfter = response.headers["retry-after"];
      heard = { code: response.statusCode ?? 0, ...(retryAfter !== undefined && { retryAfter }), text: "" };
      response.setEncoding("utf8");
      response.on("data", (text: string) => (heard = { ...heard, text: heard.text + text }));
      response.once("end", () => end(false));
      response.once("error", () => end(true));
    });
    request.once("error", () => end(true));
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "one" }, spec: { holderIdentity: "me" } };

describe("a fault-injecting API server", () => {
  let close: (() => Promise<void>) | undefined;
  afterEach(async () => {
    await close?.();
    close = undefined;
  });

  /** Sends a create under `fault`; `done` states whether the server executed it. */
  async function create(fault: Fault, query = ""): Promise<Heard & { readonly done: boolean; readonly road: FaultInjectingServer }> {
    const { road, close: end } = await startWithFaults(rule(fault, "always", { verbs: ["create"] }));
    close = end;
    const heard = await ask(`${road.url}${LEASES}${query}`, "POST", lease);
    const { code } = await ask(`${road.url}${LEASES}/one`, "GET");
    return { ...heard, done: code === 200, road };
  }

  const FAULTS: readonly { readonly name: string; readonly fault: Fault; readonly query?: string; readonly want: object }[] = [
    {
      name: "too many requests",
      fault: { kind: "refuse", with: tooManyRequests(7) },
      want: { code: 429, retryAfter: "7", text: "Too many requests, please try again later.\n", broke: false, done: false },
    },
    {
      name: "a server that shuts down",
      fault: { kind: "refuse", with: unavailable(1) },
      want: { code: 503, retryAfter: "1", text: expect.stringContaining('"reason":"ServiceUnavailable"'), broke: false, done: false },
    },
    ...([400, 403, 409, 422] as const).map((code) => ({
      name: `a webhook that denies with ${code}`,
      fault: { kind: "refuse", with: deniedByWebhook(code) } as const,
      want: { code, text: expect.stringMatching(/"admission webhook \\"policy.example.com\\" denied the request: /), done: false },
    })),
    {
      name: "a terminating namespace",
      fault: { kind: "refuse", with: namespaceTerminating("default") },
      want: { code: 403, text: expect.stringContaining('"causes":[{"reason":"NamespaceTerminating"'), done: false },
    },
    { name: "a conflict", fault: { kind: "refuse", with: CONFLICT }, want: { code: 409, done: false } },
    { name: "a lost request", fault: { kind: "loseRequest" }, want: { text: "", broke: true, done: false } },
    { name: "a lost response", fault: { kind: "loseAnswer" }, want: { text: "", broke: true, done: true } },
    {
      name: "a response that breaks off",
      fault: { kind: "cutAnswer" },
      want: { code: 201, text: expect.stringMatching(/^\{.*[^}]$/s), broke: true, done: true },
    },
    {
      name: "a rejection of an executed request",
      fault: { kind: "refuseAfter", with: INTERNAL_ERROR },
      want: { code: 500, broke: false, done: true },
    },
    { name: "slow admission", fault: { kind: "admitSlowly", ms: 300 }, want: { code: 201, broke: false, done: true } },
    {
      name: "admission beyond the request's timeout",
      fault: { kind: "admitSlowly", ms: 60_000 },
      query: "?timeout=200ms",
      want: { code: 504, text: expect.stringContaining('"reason":"Timeout"'), broke: false, done: false },
    },
    {
      name: "unknown fields",
      fault: { kind: "addFields" },
      want: { code: 201, text: expect.stringMatching(/"spec":\{[^}]*"newerField"/), broke: false, done: true },
    },
  ];
  it.each(FAULTS)("simulates $name", async ({ fault, query, want }) => {
    expect(await create(fault, query)).toMatchObject(want);
  });

  it("delays a slow request, and does not execute it if the client disconnects meanwhile", async () => {
    const { road, ms } = await create({ kind: "admitSlowly", ms: 300 });
    expect(ms).toBeGreaterThanOrEqual(299);
    const gone = fetch(`${road.url}${LEASES}`, {
      method: "POST",
      body: JSON.stringify({ ...lease, metadata: { name: "two" } }),
      signal: AbortSignal.timeout(50),
    });
    await expect(gone).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(await ask(`${road.url}${LEASES}/two`, "GET")).toMatchObject({ code: 404 });
  });

  it("records the request, the server's response and the response that the client received", async () => {
    const { road } = await create({ kind: "refuseAfter", with: INTERNAL_ERROR });
    const asked = { verb: "create", resource: "leases", namespace: "default", name: "" };
    expect(road.exchanges()).toMatchObject([
      { asked, rule: "refuseAfter", code: 201, told: 500 },
      { asked: { ...asked, verb: "get", name: "one" }, code: 200, told: 200 },
    ]);
  });

  const PIECES: readonly { readonly name: string; readonly fault: Fault; readonly want: object }[] = [
    { name: "cut in the middle of a line", fault: { kind: "cutWatch" }, want: { text: expect.stringMatching(/^\{[^\n]*$/), broke: true } },
    {
      name: "silent for a while",
      fault: { kind: "stallWatch", ms: 600 },
      want: { text: expect.stringMatching(/^\{.*\}\n$/s), broke: false },
    },
    { name: "with new fields", fault: { kind: "addFields" }, want: { text: expect.stringMatching(/"newerField".*\}\n$/s), broke: false } },
  ];
  it.each(PIECES)("simulates a watch $name", async ({ fault, want }) => {
    const { road, close: end } = await startWithFaults(rule(fault, "always", { verbs: ["watch"] }));
    close = end;
    await ask(`${road.url}${LEASES}`, "POST", lease);
    const heard = await ask(`${road.url}${LEASES}?watch=true&resourceVersion=0&timeoutSeconds=1`, "GET");
    expect(heard).toMatchObject({ code: 200, ...want });
  });
});

describe("rules", () => {
  const create = askedOf("POST", "/api/v1/namespaces/shop/pods", "deltaloop/1 (x)");

  it.each([
    { name: "to every third", often: { every: 3 }, want: "..x..x..x" },
    { name: "to the first two", often: { first: 2 }, want: "xx......." },
    { name: "always", often: "always", want: "xxxxxxxxx" },
    { name: "by a seed", often: { share: 0.5, random: createSeededRandom(3) }, want: draws(3) },
  ] satisfies readonly { name: string; often: Often; want: string }[])(
    "MA1 apply to requests by count or by seed: $name",
    ({ often, want }) => {
      const injector = createFaultInjector([rule({ kind: "loseRequest" }, often)]);
      expect(Array.from({ length: 9 }, () => (injector.meets(create).rule ? "x" : ".")).join("")).toBe(want);
    },
  );

  it("MA2 MA3 count their own matching requests; the first matching rule applies", () => {
    const injector = createFaultInjector([rule({ kind: "loseRequest" }, { every: 2 }), rule({ kind: "loseAnswer" }, { every: 3 })]);
    const met = Array.from({ length: 6 }, () => injector.meets(create).rule?.fault.kind);
    expect(met).toEqual([undefined, "loseRequest", "loseAnswer", "loseRequest", undefined, "loseRequest"]);
  });

  it("are removed on request, without affecting other rules", () => {
    const injector = createFaultInjector([rule({ kind: "loseRequest" }, "always", { namespace: "other" })]);
    const end = injector.add(rule({ kind: "loseAnswer" }));
    expect(injector.meets(create).rule?.fault.kind).toBe("loseAnswer");
    end();
    expect(injector.meets(create).rule).toBeUndefined();
    expect(injector.meets({ ...create, namespace: "other" }).rule?.fault.kind).toBe("loseRequest");
  });

  it.each([
    ["POST", "/api/v1/namespaces/shop/pods?timeout=5s", { verb: "create", resource: "pods", namespace: "shop", name: "" }],
    ["PATCH", "/apis/apps/v1/namespaces/shop/replicasets/web/status", { verb: "patch", resource: "replicasets/status", name: "web" }],
    ["GET", "/api/v1/pods?watch=true", { verb: "watch", resource: "pods", namespace: "" }],
    ["GET", "/api/v1/namespaces/shop", { verb: "get", resource: "namespaces", namespace: "", name: "shop" }],
    ["PUT", "/api/v1/namespaces/shop/finalize", { verb: "update", resource: "namespaces/finalize", namespace: "", name: "shop" }],
    ["DELETE", "/apis/apps/v1/namespaces/shop/deployments", { verb: "deletecollection", resource: "deployments" }],
    ["POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { verb: "create", resource: "selfsubjectaccessreviews" }],
    ["GET", "/readyz", { verb: "list", resource: "" }],
  ] as const)("identify the request %s %s", (method, url, want) => {
    expect(askedOf(method, url)).toMatchObject(want);
  });
});

function draws(seed: number): string {
  const random = createSeededRandom(seed);
  return Array.from({ length: 9 }, () => (random.next() < 0.5 ? "x" : ".")).join("");
}
