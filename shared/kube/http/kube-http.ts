import type { Kube } from "../client/kube.ts";
import { createClient } from "./client.ts";
import type { KubeClient } from "./client.ts";
import type { KubeHttpConfig } from "./config.ts";
import { createReader } from "./reader.ts";
import { createWatch } from "./watch.ts";
import { createWriter } from "./writer.ts";

/** One API server over HTTP as one component; the contract is in shared/kube/client/kube.ts. */
export function createKubeHttp(config: KubeHttpConfig): Kube {
  return kubeOver(createClient(config));
}

/** Returns a Kube client that sends its requests through `client`, over HTTP or in process. */
export function kubeOver(client: KubeClient): Kube {
  return { ...createReader(client), ...createWriter(client), ...createWatch(client) };
}
