import { RESOURCES } from "../objects/resources.ts";
import type { Resource } from "../objects/resources.ts";

/**
 * `/apis/apps/v1/namespaces/shop/replicasets/web/status`; an empty namespace means cluster scope or all namespaces. A resource that is not
 * in the table is named `<plural>.<version>.<group>`, and `<plural>.<version>` in the core group.
 */
export function resourcePath(resource: Resource, namespace: string, name?: string, subresource?: string): string {
  const [plural = "", version, ...group] = resource.split(".");
  const parts = [
    version === undefined ? RESOURCES[resource].path : [...(group[0] ? ["apis", group.join(".")] : ["api"]), version].join("/"),
  ];
  if (namespace !== "") parts.push("namespaces", encodeURIComponent(namespace));
  parts.push(plural);
  if (name !== undefined) parts.push(encodeURIComponent(name));
  if (subresource !== undefined) parts.push(subresource);
  return `/${parts.join("/")}`;
}
