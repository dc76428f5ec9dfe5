/** Starts the in-memory API server over HTTP and a real one, both with the CustomResourceDefinition of the sequences. */
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { serveHttp } from "../../../shared/api-server/http.ts";
import { isObject } from "../../../shared/base/json.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import { kubeHttpConfigFrom } from "../../../shared/kube/kubeconfig/kubeconfig.ts";
import { type ApiClient, createApiClient } from "../../envtest/api-client.ts";
import { eventually, startCluster } from "../../support/e2e.ts";
import type { Servers } from "./servers.ts";
import { WIDGET_CRD, WIDGETS } from "./subjects.ts";

/** Delay in ms: upstream holds creates for up to two seconds after it has accepted a definition's names. */
const ESTABLISHED_MS = 2_100;

export async function startServers(): Promise<{ readonly servers: Servers; stop(): Promise<void> }> {
  const cluster = await startCluster({ machines: false });
  const memory = await serveHttp(createApiServer({ clock: createSystemClock(), random: createSystemRandom(), managedFields: true }));
  const servers = {
    real: createApiClient(await kubeHttpConfigFrom(cluster.plane.adminKubeconfig, { component: "embedded" })),
    ours: createApiClient({ server: memory.url }),
  };
  const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  for (const send of Object.values(servers)) {
    const { code, body } = await send("POST", crds, WIDGET_CRD);
    if (code !== 201) throw new Error(JSON.stringify(body));
    await eventually("the kind is served", () => served(send));
  }
  await new Promise((resolve) => setTimeout(resolve, ESTABLISHED_MS));
  return {
    servers,
    stop: async () => {
      await memory.close();
      await cluster.stop();
    },
  };
}

async function served(send: ApiClient): Promise<boolean> {
  const { body } = await send("GET", WIDGETS);
  return isObject(body) && body["kind"] === "WidgetList";
}
