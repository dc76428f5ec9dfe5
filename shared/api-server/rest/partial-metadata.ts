/** Lists of metadata alone. Source: apiserver pkg/endpoints/handlers/response.go asPartialObjectMetadataList. */
import type { JsonObject } from "@deltaloop/base";

export function wantsMetadata(accept: string): boolean {
  return /^application\/json;as=PartialObjectMetadataList;g=meta\.k8s\.io;v=v1(?:,|$)/.test(accept);
}

/** A list as PartialObjectMetadataList. */
export function metadataOf(list: JsonObject): JsonObject {
  const partial = (kind: string, { metadata = {} }: JsonObject): JsonObject => ({ kind, apiVersion: "meta.k8s.io/v1", metadata });
  const items = list["items"] as readonly JsonObject[]; // a list has items
  return { ...partial("PartialObjectMetadataList", list), items: items.map((item) => partial("PartialObjectMetadata", item)) };
}
