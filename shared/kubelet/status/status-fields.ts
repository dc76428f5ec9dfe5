/** Fields of a pod's status: whose they are, which of them are wanted, whether two say the same. */
import type { PodStatus } from "../../ports/node-store.ts";
import { jsonEqual } from "../json-equal.ts";

type Field = keyof PodStatus;

/** Not the agent's: they come from the API server and go back as they are. Source: status_manager.go mergePodStatus. */
export const FOREIGN_FIELDS: readonly Field[] = [
  "resourceClaimStatuses",
  "extendedResourceClaimStatus",
  "nodeAllocatableResourceClaimStatuses",
];

export function onlyFields(status: PodStatus, fields: readonly Field[]): PodStatus {
  return Object.fromEntries(Object.entries(status).filter(([key]) => fields.some((field) => field === key)));
}

export function withoutFields(status: PodStatus, fields: readonly Field[]): PodStatus {
  return Object.fromEntries(Object.entries(status).filter(([key]) => !fields.some((field) => field === key)));
}

/**
 * Compared as the API server would: what is absent, null, empty text or an empty list is the same nothing.
 *
 * Source: apimachinery pkg/api/equality Semantic.DeepEqual, over values that were read from JSON.
 */
export function sameField(a: unknown, b: unknown): boolean {
  return jsonEqual(meaning(a), meaning(b));
}

/** Empty objects stay: a `waiting: {}` says something. */
function meaning(value: unknown): unknown {
  if (value === null || value === "" || (Array.isArray(value) && value.length === 0)) return undefined;
  if (Array.isArray(value)) return value.map(meaning);
  if (typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, meaning(entry)]));
}
