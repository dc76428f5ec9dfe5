/**
 * One cluster with two addresses whose certificates are signed by different CAs, and an address whose CA is rotated: the cache must
 * continue in its epoch. Uses a real TLS proxy for the in-memory API server.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { Server } from "node:https";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";

import { functionHandlers } from "../../cli/functions/functions.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { runScriptedNodes } from "../../shared/api-server/scripted-nodes/scripted-nodes.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../shared/base/system/random.ts";
import { readClusterIdentity } from "../../shared/kube/client/cluster-id.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import type { System } from "../../shared/local/assemble-system.ts";
import { createMemoryData } from "../../shared/store/memory/store/data.ts";
import { eventually } from "../support/eventually.ts";
import { rawClientIn } from "../support/raw-client.ts";
import { testSigner } from "../support/signer.ts";
import { recordingLog } from "../unit/recording-log.ts";

const [PODS, REPLICAS] = ["/api/v1/namespaces/shop/pods", 3];
const LEASE = { namespace: "kube-system", name: "deltaloop-watcher" };

const folder = mkdtempSync(join(tmpdir(), "server-addresses-"));
const ends: (() => Promise<unknown> | void)[] = [() => rmSync(folder, { recursive: true })];
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

/** Returns a self-signed certificate, which is its own CA. */
function issue(name: string): { readonly cert: string; readonly key: string } {
  const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)];
  const made = ["-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", key, "-out", cert];
  execFileSync("openssl", ["req", "-x509", ...made, "-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"], {
    stdio: "ignore",
  });
  return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
}

/** Starts a TLS proxy that forwards requests to `url`. */
async function front(url: string, tls: ReturnType<typeof issue>, port = 0): Promise<Server> {
  const server = createServer(tls, (from, to) => {
    const passed = request(`${url}${from.url}`, { method: from.method, headers: from.headers }, (answer) => {
      to.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(to);
    });
    passed.on("error", () => to.destroy());
    to.on("close", () => passed.destroy());
    from.pipe(passed);
  });
  await new Promise<void>((resolve) => void server.listen(port, "127.0.0.1", resolve));
  ends.push(() => server.close().closeAllConnections());
  return server;
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port; // a listening TCP server has an AddressInfo

it("a change of the API server's address and certificate authority opens no epoch and raises no alarm", async () => {
  const [clock, random, digester] = [createSystemClock(), createSystemRandom(), createDigester("a key of this test alone")];
  const api = createApiServer({ clock, random, garbageCollection: false });
  const http = await serveHttp(api);
  ends.push(() => http.close());
  const user = rawClientIn(api, "kubectl");
  await user.request("POST", "/api/v1/namespaces", { metadata: { name: "shop" } });
  await user.request("POST", "/apis/apps/v1/namespaces/shop/replicasets", {
    metadata: { name: "web" },
    spec: {
      replicas: REPLICAS,
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "main", image: "web:1" }] } },
    },
  });
  const leaving = new AbortController();
  const nodes = { count: 2, clock, random, bindPods: true, readyAfterMs: [20, 40], deleteAfterMs: [10, 30] } as const;
  const nodesEnd = runScriptedNodes(createInProcessKube(api, { component: "nodes" }), nodes, leaving.signal);
  ends.push(() => (leaving.abort(), nodesEnd.catch(() => undefined)));

  const data = createMemoryData();
  const log = recordingLog();
  /** Starts a system that is configured with that address and CA. */
  const start = async (server: string, ca: string): Promise<System> => {
    const kube = (component: string): ReturnType<typeof createKubeHttp> => createKubeHttp({ server, ca, component });
    const { cid: cluster, uid: clusterUid } = await readClusterIdentity(kube("watcher"));
    const backend = memoryBackend({ clock, random, digester, deployment: "addresses", cluster, data });
    const ports = { clock, random, digester, signer: testSigner(cluster), log, kube, functions: functionHandlers };
    return assembleSystem({ ...ports, ...backend }, { cluster, clusterUid, lease: LEASE });
  };
  const pods = async (): Promise<readonly string[]> =>
    (await user.list(PODS)).items.map(({ metadata }) => (metadata as { readonly name: string }).name).toSorted();
  /** Checks that a deleted pod is replaced within the same epoch. */
  const works = async (): Promise<void> => {
    const before = await pods();
    await user.request("DELETE", `${PODS}/${before[0]}`, { gracePeriodSeconds: 0 });
    await eventually("a pod is replaced", async () => {
      const after = await pods();
      return after.length === REPLICAS && !after.includes(before[0] ?? "");
    });
  };

  const [old, renewed] = [issue("old"), issue("renewed")];
  const [first, second] = [await front(http.url, old), await front(http.url, renewed)];
  const port = portOf(first);
  const one = await start(`https://127.0.0.1:${port}`, old.cert);
  await eventually("all pods exist", async () => (await pods()).length === REPLICAS);
  const epoch = data.epoch?.record.epoch;
  const two = await start(`https://localhost:${portOf(second)}`, renewed.cert);
  await works();
  await one.stop();
  await works();

  first.close().closeAllConnections();
  await front(http.url, renewed, port);
  const three = await start(`https://127.0.0.1:${port}`, renewed.cert);
  await two.stop();
  await works();
  expect(data.epoch?.record.epoch).toBe(epoch);
  const alarms = log.lines.filter(({ message }) => /two clusters share this cache|opening a new epoch|the watcher exits/.test(message));
  expect(alarms).toEqual([]);
  await three.stop();
});
