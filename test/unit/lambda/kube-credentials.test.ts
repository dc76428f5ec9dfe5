/** Credentials for the API server that change during calls. */
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { afterEach, describe, expect, it, vi } from "vitest";

import { createKubeHttp } from "../../../shared/kube/http/kube-http.ts";
import { kubeHttpConfig, tokenEndsMs } from "../../../shared/controllers/lambda/kube-credentials.ts";
import { liveConfiguration } from "../../../shared/controllers/lambda/live-configuration.ts";
import { isUnauthorized } from "../../../shared/kube/client/errors.ts";
import { createPki } from "../../envtest/pki.ts";
import { recordingLog } from "../recording-log.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const end of ends.splice(0).reverse()) await end();
});

const POD = { kind: "Pod", metadata: { name: "web-1", namespace: "shop", uid: "u" } };

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A configuration whose kube secret is the current `value()`; counts the reads. */
async function following(server: string, value: () => string, now: () => number = Date.now) {
  let reads = 0;
  const environment = {
    DELTALOOP_DEPLOYMENT: "test",
    DELTALOOP_CLUSTER: "0123456789ab",
    DELTALOOP_MAC_KEY: "a key of sixteen characters",
    DELTALOOP_DIGEST_KEY: "another of sixteen characters",
    DELTALOOP_REDIS_URL: "redis://127.0.0.1:1",
    DELTALOOP_KUBE_SERVER: server,
    DELTALOOP_KUBE_SECRET: "kube",
    DELTALOOP_DELTAS_URL: "http://127.0.0.1:1/q",
    DELTALOOP_DOORBELLS_DEPLOYMENT_URL: "http://127.0.0.1:1/d",
    DELTALOOP_DOORBELLS_REPLICASET_URL: "http://127.0.0.1:1/rs",
    DELTALOOP_DOORBELLS_REPLICATIONCONTROLLER_URL: "http://127.0.0.1:1/rc",
  };
  const log = recordingLog();
  const live = await liveConfiguration(environment, {
    secrets: () => ({ read: () => (reads++, Promise.resolve(new Map([["kube", value()]]))) }),
    now,
    log,
  });
  return { live, log, reads: () => reads };
}

const jwt = (endsMs: number, more: string) => `e30.${Buffer.from(JSON.stringify({ exp: endsMs / 1_000, more })).toString("base64url")}.x`;

describe("a token of a secret", () => {
  it("a token that is replaced and revoked fails one call, and repeated 401s cause one read, not one per call", async () => {
    let accepted = "one";
    let nowMs = 1_000_000;
    const server = createHttpServer((request: IncomingMessage, response: ServerResponse) => {
      const good = request.headers.authorization === `Bearer ${accepted}`;
      response.writeHead(good ? 200 : 401).end(JSON.stringify(good ? POD : { kind: "Status", code: 401, reason: "Unauthorized" }));
    });
    const secret: { written?: string } = {};
    const { live, reads } = await following(
      `http://127.0.0.1:${await listen(server)}`,
      () => secret.written ?? accepted,
      () => nowMs,
    );
    const kube = createKubeHttp(kubeHttpConfig(live, "replicaset"));
    let failed = 0;
    const call = async () => {
      try {
        await kube.get("pods", "shop", "web-1");
      } catch (error) {
        if (!isUnauthorized(error)) throw error;
        failed++;
      }
    };
    for (let i = 0; i < 60; i++) {
      if (i % 20 === 10) accepted = `token-${i}`;
      await call();
      nowMs += 1_000;
    }
    expect([failed, reads()]).toEqual([3, 1 + 3]);
    secret.written = "token-50";
    accepted = "what nobody has written";
    nowMs += 15_000;
    const before = reads();
    for (let i = 0; i < 100; i++) await call();
    expect(reads() - before).toBe(1);
  });

  it("a token is read again before it expires, and a warning is logged once if it was not renewed", async () => {
    let nowMs = 1_000_000;
    let value = jwt(nowMs + 3_600_000, "one");
    const { live, log, reads } = await following(
      "https://127.0.0.1:1",
      () => value,
      () => nowMs,
    );
    const { token } = kubeHttpConfig(live, "replicaset", { log, now: () => nowMs });
    const first = value;
    value = jwt(nowMs + 7_200_000, "two");
    nowMs += 3_500_000;
    expect([await token?.(), reads()]).toEqual([first, 1]);
    nowMs += 41_000;
    expect([await token?.(), reads()]).toEqual([value, 2]);
    nowMs += 3_600_000;
    for (let i = 0; i < 3; i++) await token?.();
    expect(log.lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
      "the token for the API server expires soon and was not renewed",
    ]);
    expect(JSON.stringify(log.lines)).not.toContain(value);
  });

  it.each([
    { token: jwt(5_000, "x"), want: 5_000 },
    { token: "opaque", want: undefined },
    { token: "a.b.c", want: undefined },
    { token: `a.${Buffer.from('{"exp":"soon"}').toString("base64url")}.c`, want: undefined },
  ])("reports the expiry of a token, if the token has one: $want", ({ token, want }) => {
    expect(tokenEndsMs(token)).toBe(want);
  });
});

it("a certificate of a secret is replaced during calls, and each certificate has its own connections", async () => {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-mtls-"));
  ends.push(() => rm(folder, { recursive: true }));
  const pki = await createPki(folder);
  const [own, one, two] = [await pki.serverCertificate(), await pki.clientCertificate("one", []), await pki.clientCertificate("two", [])];
  const seen: string[] = [];
  const ports = new Set<number | undefined>();
  let accepted = "one";
  const server = createHttpsServer({ cert: own.certificate, key: own.key, ca: pki.ca, requestCert: true }, (request, response) => {
    const name = String((request.socket as TLSSocket).getPeerCertificate().subject.CN);
    seen.push(name);
    ports.add(request.socket.remotePort);
    response.writeHead(name === accepted ? 200 : 401).end(JSON.stringify(name === accepted ? POD : { kind: "Status", code: 401 }));
  });
  const value = () => {
    const { certificate, key } = accepted === "one" ? one : two;
    return JSON.stringify({ clientCertificate: certificate, clientKey: key, ca: pki.ca });
  };
  const { live } = await following(`https://127.0.0.1:${await listen(server)}`, value);
  const kube = createKubeHttp(kubeHttpConfig(live, "replicaset"));
  const call = () =>
    kube.get("pods", "shop", "web-1").then(
      () => "good",
      (error: unknown) => (isUnauthorized(error) ? "refused" : String(error)),
    );
  const told = [await call(), await call()];
  accepted = "two";
  told.push(await call(), await call(), await call());
  expect(told).toEqual(["good", "good", "refused", "good", "good"]);
  expect(seen).toEqual(["one", "one", "one", "two", "two"]);
  expect(ports.size).toBe(2);
});

it("signs tokens for an EKS cluster for the region in the server's host name, or else for the current region", async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "s");
  vi.stubEnv("AWS_REGION", "eu-west-3");
  const at = async (server: string) => {
    const { live } = await following("https://x", () => "t");
    const current = { ...live.current, kube: { server, eksCluster: "prod" } };
    const { token } = kubeHttpConfig({ ...live, current }, "replicaset");
    return Buffer.from(String(await token?.()).slice("k8s-aws-v1.".length), "base64url").toString();
  };
  expect(await at("https://0A1B.gr7.eu-central-1.eks.amazonaws.com")).toContain("https://sts.eu-central-1.amazonaws.com/");
  expect(await at("https://k8s.example.com")).toContain("https://sts.eu-west-3.amazonaws.com/");
  vi.stubEnv("AWS_REGION", undefined);
  vi.stubEnv("AWS_DEFAULT_REGION", undefined);
  await expect(at("https://k8s.example.com")).rejects.toThrow("AWS_REGION: is missing");
});
