/** Whether a Node's status is worth writing (node-agent §14.2). */
import type { V1Node } from "@kubernetes/client-node";
import { numericQuantity } from "../../api/quantity.ts";
import type { Wire } from "../../api/wire.ts";
import { canonicalJson } from "../json-equal.ts";

type NodeStatus = NonNullable<Wire<V1Node>["status"]>;

/**
 * Whether anything but heartbeat times differs: quantities by value, conditions in any order, an empty list as an absent one.
 *
 * Source: pkg/kubelet/kubelet_node_status.go nodeStatusHasChanged.
 */
export function nodeStatusChanged(before: NodeStatus | undefined, after: NodeStatus): boolean {
  return before === undefined || comparable(before) !== comparable(after);
}

function comparable(status: NodeStatus): string {
  const conditions = status.conditions
    ?.map(({ lastHeartbeatTime: _, ...condition }) => condition)
    .toSorted((a, b) => (a.type < b.type ? -1 : 1));
  const resources = { capacity: values(status.capacity), allocatable: values(status.allocatable) };
  const fields = Object.entries({ ...status, ...resources, conditions });
  return canonicalJson(Object.fromEntries(fields.filter(([, field]) => !(Array.isArray(field) && field.length === 0))));
}

function values(quantities: Readonly<Record<string, string>> | undefined): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(quantities ?? {}).map(([resource, text]) => [resource, numericQuantity(text) ?? text]));
}
