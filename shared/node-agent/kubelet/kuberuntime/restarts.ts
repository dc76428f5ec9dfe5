/** What ends only so that it starts again (node-agent §6.6): kept in NodeStore, because a stop may outlive the turn that asked for it. */
import type { Restarts } from "../../ports/node-store.ts";
import { newestOf } from "../types/observed-pod.ts";
import type { ObservedContainer, ObservedPod } from "../types/observed-pod.ts";
import { initContainersOf } from "../types/pod.ts";
import type { NodePod } from "../types/pod.ts";
import type { PodActions } from "./compute-pod-actions.ts";

/**
 * The instances that `actions` ends in order to start the next, and those that were ended before and still wait for theirs:
 *
 *     foo2 failed its probe, OnFailure → kill and start it   → foo2
 *     the same under Never             → kill it             → none: whatever it ends with is its end
 *     dead sandbox, foo1 done          → make it all anew    → foo2, foo3
 *     foo2 was ended, and has its next instance              → none
 *     foo2 was to be ended, and now may go on                → none, unless its stop is under way (`isEnding`)
 *
 * Undefined: none. To be stored before the first of them is stopped.
 *
 * Source: what is left to do after a kill in kuberuntime_manager.go SyncPod, where the list is a local variable. Differs from
 * upstream: what was ended is also started when a first try fails, and after the init containers of a new sandbox. There it counts
 * as done then if it ended with 0, so that a Job takes for complete what was cut short.
 */
export function restartsOf(
  pod: NodePod,
  observed: ObservedPod,
  actions: PodActions,
  isEnding: (containerId: string) => boolean,
): Restarts | undefined {
  if (actions.killPod && !actions.createSandbox) return undefined;
  const init = initContainersOf(pod);
  const started = new Set([
    ...actions.initContainersToStart.map((index) => init[index]?.name),
    ...actions.containersToStart.map((index) => pod.spec.containers[index]?.name),
  ]);
  const isEnded = (newest: ObservedContainer): boolean => {
    if (actions.createSandbox) return isAlive(newest) || (started.has(newest.name) && !init.some(({ name }) => name === newest.name));
    return started.has(newest.name) && actions.containersToKill.some(({ id }) => id === newest.id);
  };
  const entries = [...init, ...pod.spec.containers].flatMap(({ name }) => {
    const newest = newestOf(observed, name);
    if (newest === undefined) return [];
    const waits = newest.endedForRestart === true && (newest.state === "CONTAINER_EXITED" || isEnding(newest.id));
    return waits || isEnded(newest) ? [[name, newest.id] as const] : [];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function isAlive({ state }: ObservedContainer): boolean {
  return state === "CONTAINER_RUNNING" || state === "CONTAINER_UNKNOWN";
}
