/** When a pod is looked at again after a turn, if nothing happens before (node-agent §4.6, §18.6). */

export type TurnOutcome =
  | { readonly kind: "transition" | "ok" }
  | {
      readonly kind: "error";
      readonly message: string;
      /** When the first of the back-offs ends that the turn ran into. */
      readonly retryAtMs?: number;
      readonly nowMs: number;
    };

/** The kubelet's SyncFrequency. */
const RESYNC_MS = 60_000;
const BACK_OFF_MS = 10_000;
const TRANSIENT_BACK_OFF_MS = 1_000;
const JITTER = 0.5;
/** How the error text begins while the runtime reports no network (§3.1). Source: pkg/kubelet/kubelet.go NetworkNotReadyErrorMsg. */
const NETWORK_NOT_READY = "network is not ready";

/**
 * | outcome | from now |
 * |---|---|
 * | transition | 0 |
 * | ok | 60 to 90 s |
 * | error, of the network | 1 to 1.5 s |
 * | error, with a back-off | when it ends, at most 60 s; up to half of that longer |
 * | any other error | 10 to 15 s |
 *
 * Source: pkg/kubelet/pod_workers.go completeWork.
 *
 * @param random in [0, 1)
 */
export function requeueDelayMs(outcome: TurnOutcome, random: number): number {
  const jittered = (ms: number): number => Math.round(ms * (1 + random * JITTER));
  switch (outcome.kind) {
    case "transition":
      return 0;
    case "ok":
      return jittered(RESYNC_MS);
    case "error": {
      if (outcome.message.includes(NETWORK_NOT_READY)) return jittered(TRANSIENT_BACK_OFF_MS);
      if (outcome.retryAtMs === undefined) return jittered(BACK_OFF_MS);
      return jittered(Math.min(Math.max(outcome.retryAtMs - outcome.nowMs, 0), RESYNC_MS));
    }
    default:
      return outcome satisfies never;
  }
}
