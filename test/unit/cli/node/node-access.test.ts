/**
 * Would catch: an agent that continues forever with an expired certificate, and an agent that exits because the API server is unavailable.
 */
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { nodeAccess } from "../../../../cli/node/node-access.ts";
import type { NodeAccess } from "../../../../cli/node/node-access.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import type { Certificate, Pki } from "../../../envtest/pki.ts";
import { recordingLog } from "../../recording-log.ts";
import { createTestPki } from "../../node-agent/server/fixture.ts";

const DAY_MS = 24 * 3_600_000;
let ca: { readonly pki: Pki; remove(): void };
let certificate: Certificate;
let folder: string;
let server: Server;
let asked: number;
let clock: VirtualClock;

beforeAll(async () => {
  ca = await createTestPki();
  certificate = await ca.pki.clientCertificate("system:node:n", ["system:nodes"]);
});
afterAll(() => ca?.remove());
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-access-"));
  asked = 0;
  server = createServer((_request, response) => {
    asked++;
    response.writeHead(401, { "content-type": "application/json" }).end('{"kind":"Status","code":401,"reason":"Unauthorized"}');
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await rm(folder, { recursive: true });
});

async function accessAfter(days: number, user: object): Promise<NodeAccess> {
  clock = createVirtualClock(Date.now() + days * DAY_MS);
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const config = {
    clusters: [{ name: "c", cluster: { server: `http://127.0.0.1:${port}` } }],
    users: [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  await writeFile(join(folder, "kubeconfig"), JSON.stringify(config));
  const flags = { kubeconfig: join(folder, "kubeconfig"), rotateCertificates: true, rootDir: folder, name: "n" };
  return await nodeAccess(flags, { clock, random: createSeededRandom(1), log: recordingLog() }, new AbortController().signal);
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const own = (): object => ({ "client-certificate-data": base64(certificate.certificate), "client-key-data": base64(certificate.key) });

describe("an expired certificate [node-agent 453]", () => {
  it("an expired certificate ends the agent after the API server has responded for 5 minutes", async () => {
    const access = await accessAfter(31, own());
    const ending = new AbortController();
    const rotating = access.rotate(ending.signal).catch((error: unknown) => String(error));
    await expect.poll(() => asked).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 100)); // until the agent has read the response
    await clock.advance(311_000);
    expect(await rotating).toContain("CertificateLostError: no valid client certificate is found");
    ending.abort();
  });

  it("an expired certificate does not end the agent while the API server is unavailable", async () => {
    const access = await accessAfter(31, own());
    server.closeAllConnections();
    server.close();
    const ending = new AbortController();
    let ended = false;
    const rotating = access.rotate(ending.signal).finally(() => (ended = true));
    await new Promise((resolve) => setTimeout(resolve, 200));
    await clock.advance(400_000);
    expect(ended).toBe(false);
    ending.abort();
    await rotating;
  });

  it("stores and uses a valid certificate as the kubelet does", async () => {
    const access = await accessAfter(0, own());
    expect(await access.config.certificate?.()).toMatchObject({ key: certificate.key });
    const kept = join(folder, "pki", "kubelet-client-current.pem");
    expect((await stat(kept)).mode & 0o777).toBe(0o600);
    expect(await readFile(kept, "utf8")).toContain(certificate.key);
  });
});

it("[node-agent 453] requires a path for the node's own kubeconfig with a bootstrap kubeconfig", async () => {
  const flags = { bootstrapKubeconfig: join(folder, "b"), rootDir: folder, name: "n" };
  const means = { clock: createVirtualClock(0), random: createSeededRandom(1), log: recordingLog() };
  await expect(nodeAccess(flags, means, new AbortController().signal)).rejects.toThrow("--bootstrap-kubeconfig needs --kubeconfig");
});

describe("a kubeconfig and a bootstrap kubeconfig [node-agent 453]", () => {
  const means = () => ({ clock: createVirtualClock(Date.now()), random: createSeededRandom(1), log: recordingLog() });
  const write = async (name: string, users: Readonly<Record<string, object>>): Promise<string> => {
    const names = Object.keys(users);
    const config = {
      clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
      users: names.map((user) => ({ name: user, user: users[user] })),
      contexts: names.map((user) => ({ name: user, context: { cluster: "c", user } })),
      "current-context": names[0],
    };
    await writeFile(join(folder, name), JSON.stringify(config));
    return join(folder, name);
  };

  it("uses the certificate of the selected context, not of the current one", async () => {
    const kubeconfig = await write("kubeconfig", { nobody: {}, good: own() });
    const flags = { kubeconfig, context: "good", bootstrapKubeconfig: join(folder, "none"), rotateCertificates: true };
    const access = await nodeAccess({ ...flags, rootDir: folder, name: "n" }, means(), new AbortController().signal);
    expect(await access.config.certificate?.()).toMatchObject({ key: certificate.key });
  });

  it("the written kubeconfig finds the certificate from any working directory", async () => {
    const bootstrapKubeconfig = await write("bootstrap", { bootstrap: { token: "t" } });
    const flags = { kubeconfig: join(folder, "etc", "kubeconfig"), bootstrapKubeconfig, rotateCertificates: true, name: "n" };
    await nodeAccess({ ...flags, rootDir: relative(process.cwd(), folder) }, means(), new AbortController().signal);
    const written = await readFile(flags.kubeconfig, "utf8");
    expect(written).toContain(`client-certificate: ${join(folder, "pki", "kubelet-client-current.pem")}\n`);
    expect(written).not.toContain("token");
  });
});
