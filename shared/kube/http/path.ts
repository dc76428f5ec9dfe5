import { RESOURCES } from "../objects/resources.ts";
import type { Resource } from "../objects/resources.ts";

/** `/apis/apps/v1/namespaces/shop/replicasets/web/status`; an empty namespace means cluster scope or all namespaces. */
export function resourcePath(resource: Resource, namespace: string, name?: string, subresource?: string): string {
  const parts = [RESOURCES[resource].path];
  if (namespace !== "") parts.push("namespaces", encodeURIComponent(namespace));
  parts.push(resource);
  if (name !== undefined) parts.push(encodeURIComponent(name));
  if (subresource !== undefined) parts.push(subresource);
  return `/${parts.join("/")}`;
}
