/** The kinds of a world: those of the controllers, and the built-in ones. */
import type { JsonObject } from "@deltaloop/base";
import * as builtIn from "@deltaloop/sdk/kinds";
import { apiVersionOf, kindsOf } from "@deltaloop/sdk/definitions";
import type { Definition, KindData } from "@deltaloop/sdk/definitions";

export interface Kinds {
  readonly all: readonly KindData[];
  /** @throws {Error} for a kind that the world does not have */
  of(object: { readonly apiVersion?: unknown; readonly kind?: unknown }): KindData;
}

export function kindsIn(definitions: readonly Definition[]): Kinds {
  const all = [...definitions.flatMap(kindsOf), ...Object.values(builtIn).map(({ data }) => data)];
  const byName = new Map<string, KindData>(all.toReversed().map((kind) => [`${apiVersionOf(kind)} ${kind.kind}`, kind]));
  return {
    all: [...byName.values()],
    of({ apiVersion, kind }) {
      const found = byName.get(`${String(apiVersion)} ${String(kind)}`);
      if (found !== undefined) return found;
      throw new Error(
        `${String(apiVersion)} ${String(kind)} is neither a kind of the controllers nor a built-in kind: check apiVersion and kind`,
      );
    },
  };
}

const BUILT_IN: ReadonlySet<string> = new Set(Object.values(builtIn).map(({ data }) => `${apiVersionOf(data)} ${data.kind}`));

export function isBuiltIn(kind: KindData): boolean {
  return BUILT_IN.has(`${apiVersionOf(kind)} ${kind.kind}`);
}

/** A CRD that accepts every object: for a kind of others, of which only the TypeScript type is known. */
export function anyObjectCrd({ group, version, kind, plural, scope }: KindData): JsonObject {
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  return {
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition", metadata: { name: `${plural}.${group}` } },
    spec: {
      ...{ group, scope, names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` } },
      versions: [{ name: version, served: true, storage: true, schema, subresources: { status: {} } }],
    },
  };
}

/** `deployments.apps`: the key of a resource in the API server. */
export function resourceId({ group, plural }: KindData): string {
  return group === "" ? plural : `${plural}.${group}`;
}

export function pathOf({ group, version, plural, scope }: KindData, namespace: string, name?: string): string {
  const root = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const place = scope === "Namespaced" && namespace !== "" ? `/namespaces/${namespace}` : "";
  return `${root}${place}/${plural}${name === undefined ? "" : `/${name}`}`;
}
