/** Defaults of a custom resource's schema, as the API server fills them in. */
import { isObject } from "@deltaloop/base";
import type { CustomResourceData, KindData } from "@deltaloop/sdk/definitions";
import type { GivenObject } from "./given.ts";

type Node = CustomResourceData["spec"];

export function withDefaults({ crd }: KindData, object: GivenObject): GivenObject {
  if (crd === undefined) return object;
  const filled = (name: string, node: Node | undefined): object =>
    node === undefined || object[name] === undefined ? {} : { [name]: defaulted(node, object[name]) };
  return { ...object, ...filled("spec", crd.spec), ...filled("status", crd.status) };
}

/** Source: apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go Default. */
function defaulted(node: Node, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each: unknown) => (node.items ? defaulted(node.items, each) : each));
  if (!isObject(value)) return value;
  const { properties = {}, additionalProperties } = node;
  const rest = Object.entries(value).map(([name, field]) => {
    const child = properties[name] ?? additionalProperties;
    return [name, child ? defaulted(child, field) : field] as const;
  });
  const missing = Object.entries(properties).flatMap(([name, child]) =>
    value[name] === undefined && child.default !== undefined ? [[name, defaulted(child, structuredClone(child.default))] as const] : [],
  );
  return { ...Object.fromEntries(rest), ...Object.fromEntries(missing) };
}
