import type { Resource } from "../../api/resources.ts";
import type { KubeWatch, ListPage, ListQuery } from "../../ports/kube.ts";
import { LIST_TIMEOUT_MS } from "./client.ts";
import type { KubeClient } from "./client.ts";
import { resourcePath } from "./path.ts";
import { asPage } from "./reader.ts";
import { isFailure, statusError } from "./status-error.ts";

/** Pages and lines as the server sent them (KL1). */
export function createWatch(client: KubeClient): KubeWatch<Resource> {
  const listPage = async (resource: Resource, query: ListQuery, signal: AbortSignal): Promise<ListPage> => {
    const path = resourcePath(resource, "");
    const answer = await client.json({ method: "GET", path, query: { ...query }, signal, timeoutMs: LIST_TIMEOUT_MS });
    if (isFailure(answer)) throw statusError(500, {}, JSON.stringify(answer));
    return asPage(answer);
  };
  return {
    listPage,
    watch: (resource, query, signal) => client.lines({ path: resourcePath(resource, ""), query: { watch: true, ...query }, signal }),
    newestVersion: async (resource, query, signal) => (await listPage(resource, { ...query, limit: 1 }, signal)).resourceVersion,
  };
}
