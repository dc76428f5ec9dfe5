/** Which writes of a sync are sent at once. Pure. */
import type { OwnWrite } from "./decide-writes.ts";

/**
 * Kinds without which the API server may refuse objects that follow them in `apply`: one in a namespace, a custom resource, a pod of a
 * service account or class, a binding of a role. Keys: `KIND.GROUP`.
 */
const NEEDED_KINDS = [
  "Namespace.",
  "CustomResourceDefinition.apiextensions.k8s.io",
  "ServiceAccount.",
  "Role.rbac.authorization.k8s.io",
  "ClusterRole.rbac.authorization.k8s.io",
  "PriorityClass.scheduling.k8s.io",
  "RuntimeClass.node.k8s.io",
];

/**
 * Groups of writes, to be sent one after the other: the objects of `apply`, what is pruned, `self`, `status`. Those of a group are sent at
 * once. In `apply`, an object of NEEDED_KINDS is written before those after it.
 *
 *     create Deployment, create Service, status              [create Deployment, create Service], [status]
 *     create ServiceAccount, create Pod, prune ConfigMap     [create ServiceAccount], [create Pod], [prune ConfigMap]
 */
export function stagesOf(writes: readonly OwnWrite[]): readonly (readonly OwnWrite[])[] {
  const stages: OwnWrite[][] = [];
  for (const write of writes) {
    const stage = stages.at(-1);
    const last = stage?.at(-1);
    if (stage && last && isBeside(last, write)) stage.push(write);
    else stages.push([write]);
  }
  return stages;
}

function isBeside(last: OwnWrite, write: OwnWrite): boolean {
  if (last.kind === "prune") return write.kind === "prune";
  return isApplied(last) && isApplied(write) && !isNeeded(last);
}

function isApplied({ kind }: OwnWrite): boolean {
  return kind === "create" || kind === "apply";
}

function isNeeded(write: OwnWrite): boolean {
  return "id" in write && NEEDED_KINDS.includes(`${write.id.kind.kind}.${write.id.kind.group}`);
}
