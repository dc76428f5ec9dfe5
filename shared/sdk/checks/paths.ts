/** Paths and masks, compared with the schema of a kind. A kind without a schema here is checked by the compiler alone. */
import { isMetadataOnly } from "../definition/kind.ts";
import type { KindData } from "../definition/kind.ts";
import type { Mask } from "../definition/see.ts";
import type { SchemaNode } from "../definition/schema-node.ts";

const METADATA: SchemaNode = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

/** Resolves a path to a node, to nothing, or to a field whose schema is not known here. */
export function nodeAt(kind: KindData, path: readonly string[]): SchemaNode | "absent" | "unknown" {
  if (path[0] === "metadata") return path.length === 1 ? METADATA : "unknown";
  const { crd } = kind;
  if (crd === undefined) return isMetadataOnly(kind) ? "absent" : "unknown";
  const root: SchemaNode = { properties: { spec: crd.spec, ...(crd.status && { status: crd.status }) } };
  let node: SchemaNode | undefined = root;
  for (const segment of path) {
    if (node["x-kubernetes-preserve-unknown-fields"]) return "unknown";
    node = node.properties?.[segment] ?? node.additionalProperties;
    if (node === undefined) return "absent";
  }
  return node;
}

/** Each path that a mask names. */
export function pathsOf(mask: Mask, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof mask !== "object") return [path];
  return Object.entries(mask).flatMap(([field, child]) => pathsOf(child, [...path, field]));
}
