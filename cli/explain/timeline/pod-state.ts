/** The state of a pod in a timeline. */
import type { SeenPod } from "@deltaloop/replay/explain";
import type { PodState } from "@deltaloop/timeline/input";

/** Reasons of a container that has not been started yet. */
const STARTING = new Set(["ContainerCreating", "PodInitializing", undefined]);

export function podStateOf({ deletionMs, phase, isReady, spec, status }: SeenPod): readonly [state: PodState, reason?: string] {
  if (deletionMs !== undefined) return ["terminating"];
  if (phase === "Succeeded") return ["succeeded"];
  if (phase === "Failed") return withReason("failed", status.reason);
  if (isReady) return ["ready"];
  if (spec.nodeName === undefined) return withReason("pending", status.conditions.find(({ type }) => type === "PodScheduled")?.reason);
  const states = [...status.initContainerStatuses, ...status.containerStatuses].map(({ state }) => state);
  const waiting = states.find((each) => each.waiting !== undefined && !STARTING.has(each.waiting.reason))?.waiting;
  if (waiting !== undefined) return withReason("waiting", waiting.reason);
  const ended = states.find(({ terminated }) => terminated !== undefined && terminated.exitCode !== 0)?.terminated;
  if (ended !== undefined) return withReason("waiting", ended.reason ?? `exit code ${ended.exitCode}`);
  return phase === "Running" || states.some(({ running }) => running !== undefined) ? ["running"] : ["starting"];
}

function withReason(state: PodState, reason: string | undefined): readonly [state: PodState, reason?: string] {
  return reason === undefined ? [state] : [state, reason];
}
