/** Back-off of pods and volumes (node-agent §1, §6.8, §10). */
import type { BackOffEntry } from "../../ports/node-store.ts";
import { goDuration } from "../types/go-duration.ts";
import { containerHash, type ContainerSpec, type NodePod } from "../types/pod.ts";
import type { ObservedPod } from "../types/observed-pod.ts";

/** Source: pkg/kubelet/kubelet.go, client-go util/flowcontrol/backoff.go. */
const INITIAL_MS = 10_000;
const MAX_MS = 300_000;
const FORGOTTEN_AFTER_MS = 2 * MAX_MS;

/** Source: pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go. */
const VOLUME_INITIAL_MS = 500;
const VOLUME_MAX_MS = 122_000;

/** Whether the entry has expired by `atMs`, so that it no longer counts. Source: flowcontrol.Backoff hasExpired. */
function isBackOffExpired(entry: BackOffEntry, atMs: number): boolean {
  return atMs - entry.lastUpdateMs > FORGOTTEN_AFTER_MS;
}

/**
 * The entry after one more failure at `failedAtMs`.
 *
 *     none, or expired → 10 s;  10 s → 20 s;  160 s → 300 s;  300 s → 300 s
 *
 * Source: flowcontrol.Backoff Next.
 */
export function nextBackOff(entry: BackOffEntry | undefined, failedAtMs: number, nowMs: number): BackOffEntry {
  const startsOver = entry === undefined || isBackOffExpired(entry, failedAtMs);
  return { delayMs: startsOver ? INITIAL_MS : Math.min(entry.delayMs * 2, MAX_MS), lastUpdateMs: nowMs };
}

/**
 * The entry after a volume operation has failed; a success deletes the entry. 0.5 s → 1 s → … → 64 s → 122 s. Source:
 * exponential_backoff.go Update.
 */
export function nextVolumeBackOff(entry: BackOffEntry | undefined, nowMs: number): BackOffEntry {
  return { delayMs: entry === undefined ? VOLUME_INITIAL_MS : Math.min(entry.delayMs * 2, VOLUME_MAX_MS), lastUpdateMs: nowMs };
}

/** Whether to start the container. If yes, with the entry to store; if no, with the message and the end of the back-off. */
export type RestartDecision =
  | { readonly start: true; readonly entry?: BackOffEntry }
  | { readonly start: false; readonly delayMs: number; readonly untilMs: number; readonly message: string };

/**
 * The key contains the container hash, so that a container with a new image starts without a back-off. Source: kuberuntime_manager.go
 * GetBackoffKey.
 */
export function restartBackOffKey({ metadata: { name, namespace, uid } }: NodePod, container: ContainerSpec): string {
  return `${name}_${namespace}_${uid}_${container.name}_${containerHash(container)}`;
}

/**
 * Restarts immediately the first time, and then doubles the delay after each exit, including exits with code 0.
 *
 *     exits at 0 s → starts immediately, stores 10 s
 *     exits at 1 s, now 5 s → waits until 11 s, stores nothing
 *     exits at 1 s, now 11 s → starts, stores 20 s
 *     has run for more than 10 min → starts immediately, stores 10 s
 *
 * Source: kuberuntime_manager.go doBackOff; client-go util/flowcontrol/backoff.go IsInBackOffSince, Next.
 */
export function restartDecision({
  pod,
  container,
  observed,
  entry,
  nowMs,
}: {
  readonly pod: NodePod;
  readonly container: ContainerSpec;
  readonly observed: ObservedPod;
  readonly entry: BackOffEntry | undefined;
  readonly nowMs: number;
}): RestartDecision {
  const exited = observed.containers.find(({ name, state }) => name === container.name && state === "CONTAINER_EXITED");
  if (exited === undefined) return { start: true };
  const { finishedAtMs = 0 } = exited; // a missing time must not delay the container
  if (entry === undefined || isBackOffExpired(entry, finishedAtMs) || nowMs - finishedAtMs >= entry.delayMs)
    return { start: true, entry: nextBackOff(entry, finishedAtMs, nowMs) };

  const { name, namespace, uid } = pod.metadata;
  return {
    start: false,
    delayMs: entry.delayMs,
    untilMs: finishedAtMs + entry.delayMs,
    message: `back-off ${goDuration(entry.delayMs)} restarting failed container=${container.name} pod=${name}_${namespace}(${uid})`,
  };
}
