/** The CustomResourceDefinition of a kind that `customResource` declares. */
import type { KindData } from "../definition/kind.ts";
import type { SchemaNode } from "../definition/schema-node.ts";
import { printerColumns } from "./columns.ts";

/** An object of a manifest. */
export type Manifest = Readonly<Record<string, unknown>>;

/** `undefined` for a kind that another program declares. */
export function crdManifest({ group, version, kind, plural, scope, crd }: KindData): Manifest | undefined {
  if (crd === undefined) return undefined;
  const { spec, status, shortNames } = crd;
  const properties = {
    apiVersion: { type: "string" },
    kind: { type: "string" },
    metadata: { type: "object" },
    spec: stored(spec),
    ...(status && { status: stored(status) }),
  };
  const columns = printerColumns(crd);
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List`, ...(shortNames.length > 0 && { shortNames }) },
      scope,
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", required: ["spec"], properties } },
          ...(status && { subresources: { status: {} } }),
          ...(columns.length > 0 && { additionalPrinterColumns: columns }),
        },
      ],
    },
  };
}

/** The node without what only this package knows. */
function stored({ hidden: _, ...node }: SchemaNode): object {
  const { properties, items, additionalProperties } = node;
  return {
    ...node,
    ...(properties && { properties: Object.fromEntries(Object.entries(properties).map(([name, child]) => [name, stored(child)])) }),
    ...(items && { items: stored(items) }),
    ...(additionalProperties && { additionalProperties: stored(additionalProperties) }),
  };
}
