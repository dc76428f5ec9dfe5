import type { CachedStatus, WorkerRecord } from "../../ports/node-store.ts";
import { isTerminalPhase, type NodePod } from "../types/pod.ts";
import { workerState } from "./pod-worker.ts";

export interface KnownPods {
  readonly desired: readonly NodePod[];
  /** Keyed by UID. */
  readonly records: ReadonlyMap<string, WorkerRecord>;
  /** Keyed by UID. */
  readonly statuses: ReadonlyMap<string, CachedStatus>;
  /** Whether the runtime has been relisted since the agent started. */
  readonly hasRelisted: boolean;
}

/**
 * The pods that hold resources on this node, as admission counts them (node-agent §14.4). The worker state overrides the phase.
 *
 *     phase \ worker    none       syncing    terminating   terminated
 *     not terminal      active     active     active        –
 *     terminal          –          –          active        –
 *
 * The phase is the one in the API server or the cached one. A terminal pod without a worker was rejected or ended before the agent
 * started. Source: pkg/kubelet/kubelet_pods.go isPodInactive, isAdmittedPodTerminal. Differs from upstream: before the first relist, a
 * terminal pod whose worker is terminating holds no resources. Otherwise, running pods could be rejected after a restart.
 */
export function activePods({ desired, records, statuses, hasRelisted }: KnownPods): readonly NodePod[] {
  return desired.filter(({ metadata: { uid }, status }) => {
    const record = records.get(uid);
    const state = record === undefined ? undefined : workerState(record);
    if (state === "terminated") return false;
    const isTerminal = isTerminalPhase(status?.phase) || isTerminalPhase(statuses.get(uid)?.status.phase);
    return !isTerminal || (state === "terminating" && hasRelisted);
  });
}
