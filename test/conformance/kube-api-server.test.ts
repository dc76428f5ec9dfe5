/** The in-memory API server, over HTTP and in process, as our own client sees it: the same suite as the real one (test/e2e/kube-http.test.ts). */
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { createInProcessKube } from "../../shared/api-server/in-process-client.ts";
import { serveHttp } from "../../shared/api-server/http.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { kubeConformance } from "./kube.ts";

/** Above 2^53, to catch arithmetic with resourceVersions. */
const FIRST_REVISION = 9_007_199_254_740_993n;

/** Divides the server's waits by five, because the suite checks what happens after them, not their duration. */
const system = createSystemClock();
const clock: Clock = { now: system.now, after: (ms, signal) => system.after(ms / 5, signal) };

const createServer = () => createApiServer({ clock, random: createSeededRandom(1), firstRevision: FIRST_REVISION });
const suite = {
  resource: "namespaces",
  namespace: "",
  body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "suite" } },
} as const;

kubeConformance("the in-memory API server over HTTP", async () => {
  const http = await serveHttp(createServer());
  const kube = createKubeHttp({ server: http.url, component: "conformance" });
  await kube.create(suite);
  return { kube, namespace: "suite", close: () => http.close() };
});

for (const passesObjects of [false, true])
  kubeConformance(`the in-memory API server in process, with ${passesObjects ? "objects" : "text"}`, async () => {
    const server = createServer();
    const kube = createInProcessKube(server, { component: "conformance", passesObjects });
    await kube.create(suite);
    return { kube, namespace: "suite", close: async () => server.close() };
  });
