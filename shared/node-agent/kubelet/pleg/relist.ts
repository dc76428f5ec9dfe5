/** What has happened to containers and sandboxes since the last look at all of them (node-agent §12, PLEG). */
import type { Container, ContainerState, PodSandbox } from "../../ports/cri-types.ts";
import { LABELS } from "../types/labels.ts";
import type { RelistRecord, RelistEntry } from "../node-ports/relist-record.ts";

export interface PodLifecycleEvent {
  readonly uid: string;
  readonly type: "ContainerStarted" | "ContainerDied" | "ContainerRemoved";
  /** Of a container or a sandbox. */
  readonly id: string;
}

export interface Relisted {
  readonly record: RelistRecord;
  /** By container or sandbox, known ones first; a ContainerRemoved stands behind its ContainerDied. */
  readonly events: readonly PodLifecycleEvent[];
  /** UIDs for which anything is different, also what makes no event: their status must be read before events are delivered. */
  readonly changed: readonly string[];
}

const STATES: Readonly<Record<ContainerState, RelistEntry["state"]>> = {
  CONTAINER_CREATED: "created",
  CONTAINER_RUNNING: "running",
  CONTAINER_EXITED: "exited",
  CONTAINER_UNKNOWN: "unknown",
};

/**
 * The events between the last look (none: everything is new) and what the runtime lists now, of containers that bear a pod's UID.
 *
 *     running → exited: Died     exited → gone: Removed     running → gone: Died, Removed     anything → created, unknown: none
 *
 * Source: pkg/kubelet/pleg/generic.go Relist, generateEvents. Differs from upstream: created and unknown are two states, which
 * only `changed` shows.
 */
export function relist(before: RelistRecord | undefined, sandboxes: readonly PodSandbox[], containers: readonly Container[]): Relisted {
  const old = before?.states ?? {};
  const states = listed(sandboxes, containers);
  const events: PodLifecycleEvent[] = [];
  const changed = new Set<string>();
  for (const id of new Set([...Object.keys(old), ...Object.keys(states)])) {
    const [was, is] = [old[id], states[id]];
    const uid = (was ?? is)?.uid;
    if (uid === undefined || was?.state === is?.state) continue;
    changed.add(uid);
    for (const type of eventTypes(was?.state, is?.state)) events.push({ uid, type, id });
  }
  return { record: { states }, events, changed: [...changed] };
}

/**
 * The record after `after`, if the status of some pods could not be read: theirs stays as it was before, so that the next look
 * finds the same changes again; their events are not delivered.
 */
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
  /** Pods with a sandbox that is READY. */
  readonly pods: number;
  readonly containers: Readonly<Record<RelistEntry["state"], number>>;
}

/**
 * Of what bears a pod's UID. Source: pkg/kubelet/pleg/generic.go updateRunningPodAndContainerMetrics. Differs from upstream: a state
 * that no container is in any more is 0, not what it was last.
 */
export function countRunning(sandboxes: readonly PodSandbox[], containers: readonly Container[]): Running {
  const count = { created: 0, running: 0, exited: 0, unknown: 0 };
  for (const { labels, state } of containers) if (labels[LABELS.podUid] !== undefined) count[STATES[state]]++;
  const ready = sandboxes.filter(({ state }) => state === "SANDBOX_READY").flatMap(({ labels }) => labels[LABELS.podUid] ?? []);
  return { pods: new Set(ready).size, containers: count };
}
