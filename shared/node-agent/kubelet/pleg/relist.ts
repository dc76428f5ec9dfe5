/** Computes the lifecycle events between two relists (node-agent §12, PLEG). */
import type { Container, ContainerState, PodSandbox } from "../../ports/cri-types.ts";
import { LABELS } from "../types/labels.ts";
import type { RelistRecord, RelistEntry } from "../node-ports/relist-record.ts";

export interface PodLifecycleEvent {
  readonly uid: string;
  readonly type: "ContainerStarted" | "ContainerDied" | "ContainerRemoved";
  /** Id of a container or a sandbox. */
  readonly id: string;
}

export interface Relisted {
  readonly record: RelistRecord;
  /** Events in the order of the record. A ContainerRemoved follows the ContainerDied of the same container. */
  readonly events: readonly PodLifecycleEvent[];
}

const STATES: Readonly<Record<ContainerState, RelistEntry["state"]>> = {
  CONTAINER_CREATED: "created",
  CONTAINER_RUNNING: "running",
  CONTAINER_EXITED: "exited",
  CONTAINER_UNKNOWN: "unknown",
};

/**
 * Computes the events between the last relist, if any, and the runtime's current lists. Considers only containers with a pod UID.
 *
 *     running → exited: Died     exited → gone: Removed     running → gone: Died, Removed     anything → created, unknown: none
 *
 * Source: pkg/kubelet/pleg/generic.go Relist, generateEvents. Differs from upstream: created and unknown are two states.
 */
export function relist(before: RelistRecord | undefined, sandboxes: readonly PodSandbox[], containers: readonly Container[]): Relisted {
  const old = before?.states ?? {};
  const states = listed(sandboxes, containers);
  const events: PodLifecycleEvent[] = [];
  for (const id of new Set([...Object.keys(old), ...Object.keys(states)])) {
    const [was, is] = [old[id], states[id]];
    const uid = (was ?? is)?.uid;
    if (uid === undefined || was?.state === is?.state) continue;
    for (const type of eventTypes(was?.state, is?.state)) events.push({ uid, type, id });
  }
  return { record: { states }, events };
}

/** Returns the record without the changes of pods that could not be read, so that the next relist finds these changes again. */
export function withUnread(before: RelistRecord | undefined, after: RelistRecord, unreadUids: readonly string[]): RelistRecord {
  const unread = (entry: readonly [string, RelistEntry]): boolean => unreadUids.includes(entry[1].uid);
  const kept = Object.entries(before?.states ?? {}).filter(unread);
  return { states: Object.fromEntries([...Object.entries(after.states).filter((entry) => !unread(entry)), ...kept]) };
}

function listed(sandboxes: readonly PodSandbox[], containers: readonly Container[]): RelistRecord["states"] {
  const states: Record<string, RelistEntry> = {};
  for (const { id, metadata, state } of sandboxes)
    states[id] = { uid: metadata.uid, state: state === "SANDBOX_READY" ? "running" : "exited" };
  for (const { id, labels, state } of containers) {
    const uid = labels[LABELS.podUid];
    if (uid !== undefined) states[id] = { uid, state: STATES[state] };
  }
  return states;
}

function eventTypes(was: RelistEntry["state"] | undefined, is: RelistEntry["state"] | undefined): readonly PodLifecycleEvent["type"][] {
  switch (is) {
    case "running":
      return ["ContainerStarted"];
    case "exited":
      return ["ContainerDied"];
    case "unknown":
    case "created":
      return [];
    case undefined:
      return was === "exited" ? ["ContainerRemoved"] : ["ContainerDied", "ContainerRemoved"];
    default:
      return is satisfies never;
  }
}

export interface Running {
  /** Number of pods with a ready sandbox. */
  readonly pods: number;
  readonly containers: Readonly<Record<RelistEntry["state"], number>>;
}

/**
 * Counts pods and containers that have a pod UID. Source: pkg/kubelet/pleg/generic.go updateRunningPodAndContainerMetrics. Differs from
 * upstream: a state without containers is set to 0.
 */
export function countRunning(sandboxes: readonly PodSandbox[], containers: readonly Container[]): Running {
  const count = { created: 0, running: 0, exited: 0, unknown: 0 };
  for (const { labels, state } of containers) if (labels[LABELS.podUid] !== undefined) count[STATES[state]]++;
  const ready = sandboxes.filter(({ state }) => state === "SANDBOX_READY").flatMap(({ labels }) => labels[LABELS.podUid] ?? []);
  return { pods: new Set(ready).size, containers: count };
}
