import type { V1NodeSelectorRequirement, V1NodeSelectorTerm } from "@kubernetes/client-node";
import { ownAt } from "@deltaloop/base";
import type { Labels, Wire } from "@deltaloop/kube/objects";
import type { PodSpec } from "../types/pod.ts";

type Requirement = Wire<V1NodeSelectorRequirement>;

/**
 * Whether the node matches the pod's nodeSelector and required node affinity. Source: component-helpers scheduling/corev1/nodeaffinity
 * GetRequiredNodeAffinity, Match.
 */
export function matchesNodeAffinity(spec: PodSpec, node: { readonly name: string; readonly labels: Labels }): boolean {
  for (const [key, value] of Object.entries(spec.nodeSelector ?? {})) if (ownAt(node.labels, key) !== value) return false;
  const required = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required === undefined || required.nodeSelectorTerms.some((term) => matchesTerm(term, node));
}

/** A term without any requirements matches no node. */
function matchesTerm(
  { matchExpressions = [], matchFields = [] }: Wire<V1NodeSelectorTerm>,
  node: { readonly name: string; readonly labels: Labels },
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((expression) => holds(expression, ownAt(node.labels, expression.key))) &&
    // `metadata.name` with one value is the only supported field.
    matchFields.every((field) => field.key === "metadata.name" && field.values?.length === 1 && holds(field, node.name))
  );
}

function holds({ operator, values = [] }: Requirement, value: string | undefined): boolean {
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
    case "Gt":
    case "Lt": {
      const [number, bound] = [integer(value), integer(values[0])];
      if (number === undefined || bound === undefined) return false;
      return operator === "Gt" ? number > bound : number < bound;
    }
    default:
      return false; // this version does not support the operator, so the term does not match
  }
}

function integer(text: string | undefined): bigint | undefined {
  return text !== undefined && /^[+-]?\d+$/u.test(text) ? BigInt(text.replace("+", "")) : undefined;
}
