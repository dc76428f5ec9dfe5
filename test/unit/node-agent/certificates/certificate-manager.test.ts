/**
 * Would catch: a certificate that is replaced too late or lost before it is on disk, an agent that exits because of a denied request, and
 * unlimited repetitions of a request.
 */
import { createPrivateKey, createPublicKey } from "node:crypto";
import { lstat, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import { createCertificateFiles } from "../../../../shared/node-agent/node-files/certificate-store.ts";
import { readCertificate } from "../../../../shared/node-agent/kubelet/certificate/certificate-request.ts";
import { clientTemplate } from "../../../../shared/node-agent/kubelet/certificate/rotation.ts";
import { CertificateManager, reportUnmanagedCertificates } from "../../../../shared/node-agent/certificates/certificate-manager.ts";
import type { CertificateManagerOptions } from "../../../../shared/node-agent/certificates/certificate-manager.ts";
import { joinCluster } from "../../../../shared/node-agent/certificates/join-cluster.ts";
import type { SigningKube } from "../../../../shared/node-agent/certificates/request-certificate.ts";
import { KubeApiError, UnansweredError } from "../../../../shared/kube/client/errors.ts";
import type { Metrics } from "../../../../shared/base/metrics/metrics.ts";
import type { Pki } from "../../../envtest/pki.ts";
import { recordingLog } from "../../recording-log.ts";
import { createTestPki } from "../server/fixture.ts";

const SIGNER = "kubernetes.io/kube-apiserver-client-kubelet";
const DAY_MS = 24 * 3_600_000;

let ca: { readonly pki: Pki; remove(): void };
let folder: string;
let clock: VirtualClock;
let ending: AbortController;

beforeAll(async () => void (ca = await createTestPki()));
afterAll(() => ca?.remove());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-certificates-"));
  clock = createVirtualClock(Date.now());
  ending = new AbortController();
});
afterEach(async () => {
  ending.abort();
  await rm(folder, { recursive: true });
});

/** The results of the requests, in order; the last one repeats. */
type Fate = "sign" | "deny" | "forget" | "unreachable" | "starting" | "unauthorized" | "forbidden" | "invalid";

function signer(...fates: readonly Fate[]): SigningKube & { readonly asked: readonly string[]; approve(): Promise<void> } {
  const asked: string[] = [];
  let changed: (() => void) | undefined;
  const objects = new Map<string, { metadata: { name: string; uid: string }; spec: { request: string }; status: object }>();
  const decide = async (name: string, fate: Fate): Promise<void> => {
    const object = objects.get(name);
    if (object === undefined) return;
    const request = Buffer.from(object.spec.request, "base64").toString();
    if (fate === "deny") object.status = { conditions: [{ type: "Denied", reason: "No", message: "not you" }] };
    if (fate === "sign") {
      const certificate = Buffer.from(await ca.pki.signRequest(request)).toString("base64");
      object.status = { conditions: [{ type: "Approved" }], certificate };
    }
    changed?.();
  };
  const kube = {
    asked,
    approve: async () => {
      for (const name of objects.keys()) await decide(name, "sign");
    },
    async create({ body }: { readonly body: object }) {
      // a CertificateSigningRequest
      const { metadata, spec } = body as { readonly metadata: { readonly name: string }; readonly spec: { readonly request: string } };
      const fate = fates[Math.min(asked.length, fates.length - 1)] ?? "sign";
      asked.push(metadata.name);
      if (fate === "unreachable") throw new UnansweredError("no connection");
      if (fate === "starting") throw new KubeApiError({ code: 503, reason: "ServiceUnavailable" });
      if (fate === "unauthorized") throw new KubeApiError({ code: 401, reason: "Unauthorized" });
      if (fate === "forbidden") throw new KubeApiError({ code: 403, reason: "Forbidden" });
      if (fate === "invalid") throw new KubeApiError({ code: 422, reason: "Invalid" });
      if (objects.has(metadata.name)) throw new KubeApiError({ code: 409, reason: "AlreadyExists" });
      const object = { metadata: { ...metadata, uid: `uid-${asked.length}` }, spec: { ...spec, signerName: SIGNER }, status: {} };
      objects.set(metadata.name, object);
      await decide(metadata.name, fate);
      return object;
    },
    get: async (_resource: string, _namespace: string, name: string) => objects.get(name),
    newestVersion: async () => "1",
    async *watch(_resource: string, _query: object, signal: AbortSignal) {
      await new Promise<void>((resolve) => {
        changed = resolve;
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      yield [...objects.values()].map((object) => JSON.stringify({ type: "MODIFIED", object }));
    },
  };
  return kube as unknown as ReturnType<typeof signer>; // the methods that are called
}

function files(): ReturnType<typeof createCertificateFiles> {
  return createCertificateFiles({ prefix: "kubelet-client", directory: join(folder, "pki"), clock });
}

async function managed(kube: SigningKube, more: Partial<CertificateManagerOptions> = {}): Promise<CertificateManager> {
  const template = (): ReturnType<typeof clientTemplate> => clientTemplate("node-a");
  const random = createSeededRandom(1);
  return await CertificateManager.open({
    signerName: SIGNER,
    store: files(),
    template,
    kube: () => kube,
    clock,
    random,
    log: recordingLog(),
    ...more,
  });
}

/** Uses real time, because a program signs the certificates. */
async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let turns = 0; !(await holds()); turns++) {
    if (turns > 400) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe("a manager without a certificate", () => {
  it("requests a certificate, and stores it as the kubelet does [node-agent 424]", async () => {
    const manager = await managed(signer("sign"));
    expect(manager.current()).toBeUndefined();
    void manager.run(ending.signal);
    await until("there is one", () => manager.current() !== undefined);
    expect(readCertificate(manager.current()?.cert ?? "")).toMatchObject({
      commonName: "system:node:node-a",
      organizations: ["system:nodes"],
    });
    const current = join(folder, "pki", "kubelet-client-current.pem");
    expect((await lstat(current)).isSymbolicLink()).toBe(true);
    expect((await stat(current)).mode & 0o777).toBe(0o600);
    expect(await readFile(current, "utf8")).toBe(`${manager.current()?.cert}${manager.current()?.key}`);
    expect((await readdir(join(folder, "pki"))).toSorted()).toEqual([
      expect.stringMatching(/^kubelet-client-\d{4}(-\d\d){5}\.pem$/u),
      "kubelet-client-current.pem",
    ]);
    expect(await files().current()).toEqual(manager.current());
  });

  it("retries with a new key if the request is denied or unanswered [node-agent 425]", async () => {
    const kube = signer("unreachable", "unauthorized", "deny", "sign");
    const log = recordingLog();
    const manager = await managed(kube, { log });
    void manager.run(ending.signal);
    await until("unreachable", () => kube.asked.length === 1);
    expect(manager.isServerHealthy).toBe(false);
    await clock.advance(1_900);
    expect(kube.asked).toHaveLength(1);
    await clock.advance(400);
    await until("unauthorized", () => kube.asked.length === 2);
    expect(manager.isServerHealthy).toBe(true);
    await clock.advance(4_500);
    await until("denied", () => kube.asked.length === 3);
    await clock.advance(9_000);
    await until("signed", () => manager.current() !== undefined);
    expect(new Set(kube.asked).size).toBe(4);
    expect(log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields["error"])).toContain(
      "certificate signing request is denied, reason: No, message: not you",
    );
  });

  it("abandons a request that is not approved in 15 minutes, and sends another [node-agent 425]", async () => {
    const kube = signer("forget", "sign");
    const manager = await managed(kube);
    void manager.run(ending.signal);
    await until("asked", () => kube.asked.length === 1);
    await clock.advance(14 * 60_000);
    expect(kube.asked).toHaveLength(1);
    await clock.advance(70_000);
    await until("asked anew", () => manager.current() !== undefined);
    expect(kube.asked).toHaveLength(2);
  });
});

describe("a manager with a certificate", () => {
  const given = async (): Promise<{ readonly cert: string; readonly key: string }> => {
    const { certificate, key } = await ca.pki.clientCertificate("system:node:node-a", ["system:nodes"]);
    return { cert: certificate, key };
  };

  it("replaces the certificate after 70 to 90 % of its 30 days, and uses the old one until then [node-agent 426]", async () => {
    await files().update(await given());
    clock = createVirtualClock(Date.now() + 0.7 * 30 * DAY_MS - 60_000);
    const kube = signer("forget");
    const seen: string[] = [];
    const manager = await managed(kube, { random: { next: () => 0 }, onCurrent: ({ cert }) => seen.push(cert) });
    const before = manager.current();
    void manager.run(ending.signal);
    await clock.advance(50_000);
    expect(kube.asked).toEqual([]);
    await clock.advance(20_000);
    await until("asked", () => kube.asked.length === 1);
    expect(manager.current()).toBe(before);
    await kube.approve();
    await until("replaced", () => manager.current() !== before);
    expect(seen).toEqual([before?.cert, manager.current()?.cert]);
  });

  it("returns no certificate after the certificate has expired [node-agent 426]", async () => {
    await files().update(await given());
    const manager = await managed(signer("forget"));
    expect(manager.current()).toBeDefined();
    await clock.advance(31 * DAY_MS);
    expect(manager.current()).toBeUndefined();
    expect((await managed(signer("forget"))).current()).toBeUndefined();
  });

  it("uses a supplied initial certificate, and replaces it immediately [node-agent 426]", async () => {
    const first = await given();
    const manager = await managed(signer("sign"), { first });
    expect(manager.current()).toBe(first);
    void manager.run(ending.signal);
    await until("replaced", () => manager.current() !== first);
  });

  it("requests another certificate if the node's address changes while a request is pending [node-agent 427]", async () => {
    const kube = signer("forget");
    let ipAddresses = ["10.0.0.7"];
    const manager = await managed(kube, { template: () => ({ ...clientTemplate("node-a"), ipAddresses }) });
    void manager.run(ending.signal);
    await until("asked", () => kube.asked.length === 1);
    ipAddresses = ["10.0.0.8"];
    await clock.advance(6_000);
    await until("asked anew", () => kube.asked.length === 2);
    expect(new Set(kube.asked).size).toBe(2);
  });
});

describe("metrics of a certificate manager [node-agent 464]", () => {
  const counted = (): Metrics & { readonly told: (name: string) => readonly number[] } => {
    const all: (readonly [name: string, value: number])[] = [];
    const note = (name: string, _labels: object, value = 1): void => void all.push([name, value]);
    return { count: note, set: note, observe: note, told: (name) => all.filter(([each]) => each === name).map(([, value]) => value) };
  };

  it.each([
    [
      SIGNER,
      "kubelet_certificate_manager_client_ttl_seconds",
      "kubelet_certificate_manager_client_expiration_renew_errors",
      "kubelet_certificate_manager_client_rotation_seconds",
    ],
    [
      "kubernetes.io/kubelet-serving",
      "kubelet_certificate_manager_server_ttl_seconds",
      "kubelet_server_expiration_renew_errors",
      "kubelet_certificate_manager_server_rotation_seconds",
    ],
  ] as const)("exposes time to expiry, failures and age at rotation for the signer %s", async (signerName, ttl, failures, lived) => {
    const metrics = counted();
    const kube = signer("unreachable", "deny", "sign", "forget");
    const manager = await managed(kube, { metrics, signerName });
    expect(metrics.told(ttl)).toEqual([Infinity]);
    void manager.run(ending.signal);
    await until("unreachable", () => kube.asked.length === 1);
    expect(metrics.told(failures)).toEqual([1]);
    await clock.advance(2_300);
    await until("denied", () => metrics.told(failures).length === 2);
    await clock.advance(4_500);
    await until("signed", () => manager.current() !== undefined);
    expect(metrics.told(lived)).toEqual([]);
    expect(new Set(metrics.told(ttl))).toEqual(new Set([Infinity]));
    const { notBeforeMs, notAfterMs } = readCertificate(manager.current()?.cert ?? "");
    await clock.advance(1_000);
    // The metric is updated every second, not when it is read.
    expect([0, 1]).toContain((metrics.told(ttl).at(-1) ?? 0) - Math.trunc((notAfterMs - clock.now()) / 1_000));

    ending.abort();
    ending = new AbortController();
    clock = createVirtualClock(notBeforeMs + 0.95 * (notAfterMs - notBeforeMs));
    const next = await managed(signer("sign"), { metrics, signerName });
    const old = next.current();
    void next.run(ending.signal);
    await until("replaced", () => next.current() !== old);
    expect(metrics.told(lived)).toEqual(signerName === SIGNER ? [] : [(clock.now() - notBeforeMs) / 1_000]);
    expect(metrics.told(failures)).toHaveLength(2);
  });

  it("the time to expiry of both certificates is +Inf without rotation", () => {
    const metrics = counted();
    reportUnmanagedCertificates(metrics);
    for (const kind of ["client", "server"]) expect(metrics.told(`kubelet_certificate_manager_${kind}_ttl_seconds`)).toEqual([Infinity]);
  });

  it("the time to expiry is +Inf after expiry", async () => {
    const { certificate: cert, key } = await ca.pki.clientCertificate("system:node:node-a", ["system:nodes"]);
    await files().update({ cert, key });
    clock = createVirtualClock(readCertificate(cert).notAfterMs - 3_500);
    const metrics = counted();
    const manager = await managed(signer("forget"), { metrics });
    void manager.run(ending.signal);
    await clock.advance(5_000);
    expect([...new Set(metrics.told("kubelet_certificate_manager_client_ttl_seconds"))]).toEqual([3, 2, 1, 0, Infinity]);
  });
});

describe("the certificate files", () => {
  it("the store rejects a certificate for another key, or a file in place of the symbolic link, and keeps the existing files [node-agent 428]", async () => {
    const [one, other] = await Promise.all(["a", "b"].map((name) => ca.pki.clientCertificate(name, [])));
    const store = files();
    const first = { cert: one?.certificate ?? "", key: one?.key ?? "" };
    await store.update(first);
    await expect(store.update({ cert: first.cert, key: other?.key ?? "" })).rejects.toThrow("private key does not match public key");
    expect((await store.current())?.cert).toBe(first.cert);
    await rm(store.currentPath);
    await writeFile(store.currentPath, "mine");
    await expect(store.update(first)).rejects.toThrow("to be a symlink but it is a file");
    expect(await readFile(store.currentPath, "utf8")).toBe("mine");
  });
});

describe("joining [node-agent 429]", () => {
  const pendingKey = (): Parameters<typeof joinCluster>[0]["pendingKey"] & { readonly held: () => string | undefined } => {
    let held: string | undefined;
    return {
      held: () => held,
      read: async () => held,
      write: async (key) => void (held = key),
      remove: async () => void (held = undefined),
    };
  };

  it("joining continues with its own request after an interruption", async () => {
    const kube = signer("forget");
    const pending = pendingKey();
    const options = { kube, nodeName: "node-a", store: files(), pendingKey: pending, clock, log: recordingLog() };
    const cut = new AbortController();
    const first = joinCluster(options, cut.signal);
    await until("asked", () => kube.asked.length === 1);
    cut.abort(new Error("killed"));
    await expect(first).rejects.toThrow("killed");
    expect(pending.held()).toBeDefined();
    const second = joinCluster(options, ending.signal);
    await until("asked again", () => kube.asked.length === 2);
    expect(new Set(kube.asked).size).toBe(1);
    await kube.approve();
    await second;
    expect(pending.held()).toBeUndefined();
    const { key = "" } = (await files().current()) ?? {};
    expect(createPublicKey(createPrivateKey(key)).asymmetricKeyType).toBe("ec");
  });

  it.each([
    { title: "a minute", given: {}, asked: 31 },
    { title: "the startup timeout", given: { startupTimeoutMs: 20_000 }, asked: 11 },
  ])("retries while the API server is unreachable for $title, then reports the error", async ({ given, asked }) => {
    const kube = signer("unreachable");
    const options = { kube, nodeName: "node-a", store: files(), pendingKey: pendingKey(), clock, log: recordingLog(), ...given };
    const joining = joinCluster(options, ending.signal);
    joining.catch(() => undefined);
    await until("asked", () => kube.asked.length === 1);
    await clock.advance(70_000);
    await expect(joining).rejects.toThrow("no connection");
    expect(kube.asked).toHaveLength(asked);
  });

  it("retries while a starting API server returns 503, 401 or 403", async () => {
    const kube = signer("starting", "unauthorized", "forbidden", "forbidden", "sign");
    const pending = pendingKey();
    const joining = joinCluster(
      { kube, nodeName: "node-a", store: files(), pendingKey: pending, clock, log: recordingLog() },
      ending.signal,
    );
    joining.catch(() => undefined);
    await until("asked", () => kube.asked.length === 1);
    await clock.advance(10_000);
    await joining;
    expect(kube.asked).toHaveLength(5);
    expect(await files().current()).toBeDefined();
  });

  it.each([
    { fate: "forbidden", asked: 31, want: { reason: "Forbidden" } },
    { fate: "invalid", asked: 1, want: { reason: "Invalid" } },
  ] as const)("reports the failure '$fate' after $asked calls", async ({ fate, asked, want }) => {
    const kube = signer(fate);
    const options = { kube, nodeName: "node-a", store: files(), pendingKey: pendingKey(), clock, log: recordingLog() };
    const joining = joinCluster(options, ending.signal).catch((error: unknown) => error);
    await until("asked", () => kube.asked.length === 1);
    await clock.advance(70_000);
    expect(await joining).toMatchObject(want);
    expect(kube.asked).toHaveLength(asked);
  });

  it("joining ends immediately if the request is denied", async () => {
    const kube = signer("deny");
    const options = { kube, nodeName: "node-a", store: files(), pendingKey: pendingKey(), clock, log: recordingLog() };
    await expect(joinCluster(options, ending.signal)).rejects.toThrow("certificate signing request is denied");
  });
});
