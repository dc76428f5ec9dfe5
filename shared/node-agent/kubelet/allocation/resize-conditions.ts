/** Resize conditions in the pod status (node-agent §6.11): pending or in progress. */
import { formatTime } from "@deltaloop/kube/objects";
import type { PodAllocation, ResizeCondition } from "../../ports/node-store.ts";
import type { PodCondition, NodePod } from "../types/pod.ts";
import { granted } from "./allocation.ts";

/** The reason why a resize is not granted. */
export interface Refusal {
  /** Cause in the Event's message, such as `OutOfcpu`. */
  readonly cause: string;
  readonly reason: "Deferred" | "Infeasible";
  readonly message: string;
}

/** Sets the pending condition. Its transition time changes only with the reason. Returns `allocation` itself if nothing changes. */
export function withPending(allocation: PodAllocation, pod: NodePod, { reason, message }: Refusal, nowMs: number): PodAllocation {
  const { pending: was } = allocation;
  const observedGeneration = pod.metadata.generation ?? 0;
  if (was?.reason === reason && was.message === message && was.observedGeneration === observedGeneration) return allocation;
  return { ...allocation, pending: { reason, message, observedGeneration, sinceMs: was?.reason === reason ? was.sinceMs : nowMs } };
}

/** Whether an Event must be emitted. As in upstream, only a changed reason or generation counts; changed amounts do not. */
export function isPendingChanged(before: PodAllocation, after: PodAllocation): boolean {
  const [was, is] = [before.pending, after.pending];
  return is !== undefined && (was?.reason !== is.reason || was.observedGeneration !== is.observedGeneration);
}

export function withoutPending({ pending: _, ...allocation }: PodAllocation): PodAllocation {
  return allocation;
}

/** Grants the resize and clears the pending condition. Source: allocation_manager.go handlePodResourcesResize. */
export function withGranted(allocation: PodAllocation, pod: NodePod, nowMs: number): PodAllocation {
  return { ...granted(pod, allocation), inProgress: { observedGeneration: pod.metadata.generation ?? 0, sinceMs: nowMs } };
}

/**
 * Sets the in-progress condition. The condition keeps its first generation, and an error remains until the resize is complete. Returns
 * `allocation` itself if nothing changes. Source: pkg/kubelet/status/status_manager.go SetPodResizeInProgressCondition.
 */
export function withInProgress(
  allocation: PodAllocation,
  pod: NodePod,
  { error, nowMs }: { readonly error?: string; readonly nowMs: number },
): PodAllocation {
  const { inProgress: was } = allocation;
  if (was !== undefined && (error === undefined || (was.reason === "Error" && was.message === error))) return allocation;
  const observedGeneration = was?.observedGeneration ?? pod.metadata.generation ?? 0;
  const inProgress = { observedGeneration, sinceMs: was !== undefined && was.reason === "Error" ? was.sinceMs : nowMs };
  return { ...allocation, inProgress: error === undefined ? inProgress : { ...inProgress, reason: "Error", message: error } };
}

export function withoutInProgress({ inProgress: _, ...allocation }: PodAllocation): PodAllocation {
  return allocation;
}

/** Returns the conditions in upstream's order. */
export function resizeConditions({ pending, inProgress }: Pick<PodAllocation, "pending" | "inProgress">): readonly PodCondition[] {
  return [
    ...(pending === undefined ? [] : [condition("PodResizePending", pending)]),
    ...(inProgress === undefined ? [] : [condition("PodResizeInProgress", inProgress)]),
  ];
}

function condition(
  type: string,
  { reason, message, observedGeneration, sinceMs }: ResizeCondition & { readonly reason?: string },
): PodCondition {
  return {
    type,
    status: "True",
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    ...(observedGeneration !== 0 && { observedGeneration }),
    lastTransitionTime: formatTime(sinceMs),
  };
}

interface Summary {
  readonly name: string;
  readonly resources: object;
}

/**
 * The text of an Event, in upstream's format:
 *
 *     Pod resize started: {"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}],"generation":2}
 *
 * Source: pkg/kubelet/events/resize.go.
 */
export function resizeMessage(prefix: string, { spec }: NodePod, generation: number, error = ""): string {
  const summaries = (containers: NodePod["spec"]["containers"] = []): readonly Summary[] =>
    containers.map(({ name, resources: { limits, requests } = {} }) => ({
      name,
      resources: { ...(limits && { limits: inOrder(limits) }), ...(requests && { requests: inOrder(requests) }) },
    }));
  const [initContainers, containers] = [summaries(spec.initContainers), summaries(spec.containers)];
  const summary = { ...(initContainers.length > 0 && { initContainers }), containers, generation, ...(error !== "" && { error }) };
  return `${prefix}: ${JSON.stringify(summary)}`;
}

function inOrder(amounts: Readonly<Record<string, string>>): object {
  return Object.fromEntries(Object.entries(amounts).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
