import type { Resource } from "../../api/resources.ts";
import type { KubeReader, KubeWatch, KubeWriter } from "../../ports/kube.ts";
import { createClient } from "./client.ts";
import type { KubeHttpConfig } from "./config.ts";
import { createReader } from "./reader.ts";
import { createWatch } from "./watch.ts";
import { createWriter } from "./writer.ts";

/** One API server over `node:https`, as one component; see shared/ports/kube.ts for what is promised. */
export function createKubeHttp(config: KubeHttpConfig): KubeReader & KubeWriter & KubeWatch<Resource> {
  const client = createClient(config);
  const { inactivityMs } = config;
  return { ...createReader(client), ...createWriter(client), ...createWatch(client, inactivityMs === undefined ? {} : { inactivityMs }) };
}
