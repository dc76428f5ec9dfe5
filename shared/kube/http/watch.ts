import { exactText } from "@deltaloop/base";
import type { Resource } from "../objects/resources.ts";
import type { KubeWatch, ListPage, ListQuery, WatchQuery } from "../client/kube.ts";
import { decodeList, decodeStatus } from "../protobuf/envelope.ts";
import { PROTOBUF } from "../protobuf/fields.ts";
import type { Fields } from "../protobuf/fields.ts";
import type { RequestSpec } from "./access.ts";
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
  const listPage = async (resource: Resource, { metadataOnly, fields, ...query }: ListQuery, signal: AbortSignal): Promise<ListPage> => {
    const path = pathOf(resource);
    const accept = metadataOnly ? { accept: METADATA_ONLY } : fields && protobufOf(fields);
    const answer = await client.json({ method: "GET", path, query, signal, timeoutMs: LIST_TIMEOUT_MS, ...accept });
    if (isFailure(answer)) throw statusError(500, {}, exactText(answer));
    return asPage(answer, query.continue);
  };
  return {
    listPage,
    watch(resource, { metadataOnly, fields, ...query }: WatchQuery, signal) {
      const accept = metadataOnly ? { accept: METADATA_EVENTS } : fields && protobufOf(fields);
      return client.lines({ path: pathOf(resource), query: { watch: true, ...query }, signal, ...accept });
    },
    newestVersion: async (resource, query, signal) => (await listPage(resource, { ...query, limit: 1 }, signal)).resourceVersion,
  };
}

/** A server without protobuf sends JSON. Source: client-go rest/config.go, AcceptContentTypes. */
function protobufOf(fields: Fields): Pick<RequestSpec, "accept" | "protobuf"> {
  return {
    accept: `${PROTOBUF},application/json`,
    protobuf: { success: (body) => decodeList(body, fields), failure: decodeStatus },
  };
}
