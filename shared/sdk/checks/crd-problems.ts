/** Problems of a CustomResourceDefinition that the API server would reject. */
import type { KindData } from "../definition/kind.ts";
import type { SchemaNode } from "../definition/schema-node.ts";
import { columnPath } from "../manifests/columns.ts";
import { nodeAt } from "./paths.ts";

const DNS_LABEL = /^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)+$/;
const VERSION = /^v[1-9][0-9]*(?:(?:alpha|beta)[1-9][0-9]*)?$/;
const KIND = /^[A-Z][A-Za-z0-9]{0,62}$/;
/** Source: apiextensions-apiserver pkg/apihelpers/helpers.go IsProtectedCommunityGroup. */
const PROTECTED = /(?:^|\.)(?:k8s|kubernetes)\.io$/;

export function crdProblems(kind: KindData): readonly string[] {
  const { crd, group, version, plural } = kind;
  if (crd === undefined) return [];
  const problems: string[] = [];
  if (!DNS_SUBDOMAIN.test(group)) problems.push(`\`group\` must be a domain such as "demo.example.com", not "${group}"`);
  if (PROTECTED.test(group)) problems.push(`\`group\` ${group} is reserved by Kubernetes: use a domain of your own`);
  if (!VERSION.test(version)) problems.push(`\`version\` must look like v1, v1beta1 or v2alpha1, not "${version}"`);
  if (!KIND.test(kind.kind)) problems.push(`\`kind\` must look like Website, not "${kind.kind}"`);
  for (const name of [plural, ...crd.shortNames])
    if (!DNS_LABEL.test(name)) problems.push(`"${name}" is not a valid resource name: use lowercase letters, as in "websites"`);
  for (const [heading, column] of Object.entries(crd.columns)) {
    const path = columnPath(column);
    if (path === undefined)
      problems.push(`the column ${heading} has "${column}", which is not a JSONPath: start it with a dot, as in ".status.ready"`);
    else if (nodeAt(kind, path) === "absent")
      problems.push(`the column ${heading} has the path ${column}, which the schema lacks: correct it`);
  }
  problems.push(...nodeProblems("spec", crd.spec), ...(crd.status ? nodeProblems("status", crd.status) : []));
  return problems.map((problem) => `${kind.kind}: ${problem}`);
}

function nodeProblems(path: string, node: SchemaNode): readonly string[] {
  const { minimum = -Infinity, maximum = Infinity, default: given, items, properties = {}, additionalProperties } = node;
  const problems: string[] = [];
  if (node.enum?.length === 0) problems.push(`${path}: an enum needs a value`);
  if (minimum > maximum) problems.push(`${path}: the minimum ${minimum} is above the maximum ${maximum}: swap them`);
  if (typeof given === "number" && (given < minimum || given > maximum))
    problems.push(`${path}: the default ${given} is out of its bounds`);
  if (node.type === "integer" && typeof given === "number" && !Number.isInteger(given))
    problems.push(`${path}: the default ${given} is not an integer: use s.number()`);
  if (typeof given === "string" && node.pattern !== undefined && !new RegExp(node.pattern).test(given))
    problems.push(`${path}: the default "${given}" does not match its pattern`);
  for (const key of node["x-kubernetes-list-map-keys"] ?? [])
    // Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go
    if (items?.required?.includes(key) !== true && items?.properties?.[key]?.default === undefined)
      problems.push(`${path}: the map key ${key} must be a field of each element, and not optional`);
  return [
    ...problems,
    ...Object.entries(properties).flatMap(([name, child]) => nodeProblems(`${path}.${name}`, child)),
    ...(items ? nodeProblems(`${path}[]`, items) : []),
    ...(additionalProperties ? nodeProblems(`${path}.*`, additionalProperties) : []),
  ];
}
