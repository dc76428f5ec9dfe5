/** Records which containers are stopped for a restart (node-agent §6.6). The record is stored, because a stop may outlast its sync. */
import type { Restarts } from "../../ports/node-store.ts";
import { newestOf, type ObservedContainer, type ObservedPod } from "../types/observed-pod.ts";
import { initContainersOf, type NodePod } from "../types/pod.ts";
import type { PodActions } from "./compute-pod-actions.ts";

/**
 * Returns the instances that `actions` stops for a restart, and earlier ones that have not restarted yet. Must be stored before the first
 * one is stopped.
 *
 *     foo2 failed its probe, OnFailure → kill and start it   → foo2
 *     the same under Never             → kill it             → none: its exit is final
 *     dead sandbox, foo1 done          → recreate all        → foo2, foo3
 *     foo2 was stopped, and has its next instance            → none
 *     foo2 was to be stopped, and may now continue           → none, unless its stop has started (`isEnding`)
 *
 * Source: kuberuntime_manager.go SyncPod. Differs from upstream: retries the start after a failure and after the init containers of a new
 * sandbox. In these cases, upstream treats exit code 0 as completed, even in a Job.
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
