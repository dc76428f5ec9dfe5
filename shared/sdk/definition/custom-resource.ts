/** `customResource`: a kind whose CustomResourceDefinition this code describes. */
import { makeKind } from "./kind.ts";
import type { Kind } from "./kind.ts";
import type { SchemaNode } from "./schema-node.ts";
import type { Schema } from "./schema.ts";
import type { Mask } from "./see.ts";

interface Custom<N extends string, Sp, SpM, St, StM> {
  readonly group: string;
  readonly version: string;
  readonly kind: N;
  /** Default: the kind in small letters with an `s`. */
  readonly plural?: string;
  /** Default: `Namespaced`. */
  readonly scope?: "Namespaced" | "Cluster";
  readonly shortNames?: readonly string[];
  /** Printer columns of `kubectl get`: JSONPath by heading. */
  readonly columns?: Readonly<Record<string, string>>;
  readonly spec: Schema<Sp, false, SpM>;
  readonly status?: Schema<St, false, StM>;
}

/** Declares a custom resource. Its spec and status are visible to the controller for which it is the primary. */
export function customResource<const N extends string, Sp, SpM, St = undefined, StM = true>(
  custom: Custom<N, Sp, SpM, St, StM>,
): Kind<{ readonly spec: Sp; readonly status?: St }, N, { readonly spec: SpM; readonly status: StM }> {
  const { group, version, kind, scope = "Namespaced", shortNames = [], columns = {}, spec, status } = custom;
  const plural = custom.plural ?? `${kind.toLowerCase()}s`;
  const seen = { ...maskOf("spec", spec.node), ...(status && maskOf("status", status.node)) };
  const crd = { shortNames, columns, spec: spec.node, ...(status && { status: status.node }) };
  return makeKind({ group, version, kind, plural, scope, status: status !== undefined, seen, crd });
}

/** The entry of a field in a mask; none if the field is hidden. */
function maskOf(name: string, node: SchemaNode): Readonly<Record<string, Mask>> {
  if (node.hidden) return {};
  const fields = Object.entries(node.properties ?? {});
  const masks = Object.assign({}, ...fields.map(([field, child]) => maskOf(field, child))) as Readonly<Record<string, Mask>>; // of maskOf
  const allVisible = fields.every(([field]) => masks[field] === true);
  return { [name]: allVisible ? true : masks };
}
