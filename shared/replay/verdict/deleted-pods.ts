/** Pods of a workload that a client other than their controller deleted shortly before the cause. */
import type { Finding } from "../findings/finding.ts";
import { podName } from "../incident/view.ts";
import type { View } from "../incident/view.ts";
import { beforeCause } from "./no-change.ts";

export interface DeletedPods {
  /** In kubectl's form: `pod/web-7f8fb-x2x4z`. */
  readonly objects: readonly string[];
  readonly firstMs: number;
  readonly lastMs: number;
  /** Kind of the pods' controller. */
  readonly controller: "ReplicaSet" | "ReplicationController";
}

/** Causes that delete pods themselves. */
const DELETING = new Set(["deleted", "evicted", "drained", "preempted"]);

export function deletedPodsIn(view: View, cause: Finding | undefined): DeletedPods | undefined {
  const { state, owner, current, olds } = view;
  if (owner === undefined || cause?.level !== "cause" || DELETING.has(cause.kind)) return undefined;
  const { fromMs, untilMs } = beforeCause(cause);
  const controllers = [current, ...olds].filter((each) => each !== undefined && each.deletionMs === undefined);
  const deletions = controllers
    .flatMap((each) => (each === undefined ? [] : state.deletionsOf(each.uid)))
    .filter(({ atMs }) => atMs >= fromMs && atMs <= untilMs)
    .toSorted((a, b) => a.atMs - b.atMs);
  const [firstMs, lastMs] = [deletions[0]?.atMs, deletions.at(-1)?.atMs];
  if (firstMs === undefined || lastMs === undefined) return undefined;
  const controller = owner.resource === "replicationcontrollers" ? "ReplicationController" : "ReplicaSet";
  return { objects: deletions.map(podName), firstMs, lastMs, controller };
}
