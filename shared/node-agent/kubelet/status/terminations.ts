import type { PodStatus } from "../../ports/node-store.ts";
import type { ContainerStatusEntry } from "../types/pod.ts";

export interface Termination {
  readonly containerType: "init_container" | "container" | "ephemeral_container";
  readonly exitCode: number;
  /** Reason of the termination, such as `Completed`, `Error` or `OOMKilled`. */
  readonly reason: string;
}

/**
 * Returns the containers that are terminated in `after` but not in `before` (node-agent §15). A container that starts and ends between
 * two statuses is missed.
 * Source: pkg/kubelet/status/status_manager.go updateStatusInternal checkAndRecordTerminations.
 */
export function terminationsBetween(before: PodStatus, after: PodStatus): readonly Termination[] {
  const of = (
    containerType: Termination["containerType"],
    was: readonly ContainerStatusEntry[] = [],
    is: readonly ContainerStatusEntry[] = [],
  ): readonly Termination[] =>
    is.flatMap(({ name, state }) => {
      const ended = state?.terminated;
      if (ended === undefined || was.some((one) => one.name === name && one.state?.terminated !== undefined)) return [];
      return [{ containerType, exitCode: ended.exitCode, reason: ended.reason ?? "" }];
    });
  return [
    ...of("init_container", before.initContainerStatuses, after.initContainerStatuses),
    ...of("container", before.containerStatuses, after.containerStatuses),
    ...of("ephemeral_container", before.ephemeralContainerStatuses, after.ephemeralContainerStatuses),
  ];
}
