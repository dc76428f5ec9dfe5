/** Which pods hold room on this node, as admission counts it (node-agent §14.4). */
import type { CachedStatus, WorkerRecord } from "../../ports/node-store.ts";
import { isTerminalPhase } from "../types/pod.ts";
import type { NodePod } from "../types/pod.ts";
import { workerState } from "./pod-worker.ts";

export interface KnownPods {
  readonly desired: readonly NodePod[];
  /** By UID. */
  readonly records: ReadonlyMap<string, WorkerRecord>;
  /** By UID. */
  readonly statuses: ReadonlyMap<string, CachedStatus>;
  /** The runtime has been looked at since the agent began. */
  readonly hasRelisted: boolean;
}

/**
 * What the worker knows goes before the phase, and the phase is the cached one too, which the API server may not have yet:
 *
 *     phase \ worker    none       syncing    terminating   terminated
 *     not terminal      active     active     active        –
 *     terminal          –          –          active        –
 *
 * A pod without a worker whose phase is terminal was rejected, or ended in an earlier life of the agent.
 *
 * Source: pkg/kubelet/kubelet_pods.go isPodInactive, isAdmittedPodTerminal. Differs from upstream: there a pod of terminal phase is
 * terminated from the start where nothing of it was seen to run; here also where nobody has looked yet, its worker is terminating.
 * Until then it holds no room, or what runs would be rejected after a restart.
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
