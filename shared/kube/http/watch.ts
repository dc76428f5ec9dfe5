import { exactText } from "@deltaloop/base";
import type { Resource } from "../objects/resources.ts";
import type { KubeWatch, ListPage, ListQuery } from "../client/kube.ts";
import type { KubeClient } from "./client.ts";
import { resourcePath } from "./path.ts";
import { asPage } from "./reader.ts";
import { isFailure, statusError } from "./status-error.ts";
import { LIST_TIMEOUT_MS } from "./streams.ts";

/** Source: client-go metadata/metadata.go, for JSON. */
const METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA_EVENTS = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/** Returns pages and lines as the server sent them (KL1). @param namespace of namespaced resources; empty for all namespaces */
export function createWatch(client: KubeClient, namespace = ""): KubeWatch<Resource> {
  const pathOf = (resource: Resource): string => resourcePath(resource, resource === "nodes" ? "" : namespace);
  const listPage = async (resource: Resource, { metadataOnly, ...query }: ListQuery, signal: AbortSignal): Promise<ListPage> => {
    const path = pathOf(resource);
    const accept = metadataOnly ? { accept: METADATA_ONLY } : {};
    const answer = await client.json({ method: "GET", path, query, signal, timeoutMs: LIST_TIMEOUT_MS, ...accept });
    if (isFailure(answer)) throw statusError(500, {}, exactText(answer));
    return asPage(answer, query.continue);
  };
  return {
    listPage,
    watch(resource, { metadataOnly, ...query }, signal) {
      const accept = metadataOnly ? { accept: METADATA_EVENTS } : {};
      return client.lines({ path: pathOf(resource), query: { watch: true, ...query }, signal, ...accept });
    },
    newestVersion: async (resource, query, signal) => (await listPage(resource, { ...query, limit: 1 }, signal)).resourceVersion,
  };
}
