/** What the turns of a node agent are given: the outside world as ports, and the few things that live as long as the host (node-agent §18). */
import type { KubeObject } from "@deltaloop/kube/objects";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import type { Clock, Log, Random } from "@deltaloop/base";
import type { Cgroups } from "../../ports/cgroups.ts";
import type { Cri } from "../../ports/cri.ts";
import type { Machine } from "../../ports/machine.ts";
import type { Metrics } from "@deltaloop/base/metrics";
import type { NodeFiles, DiskUsage } from "../../ports/node-files.ts";
import type { NodeStore } from "../../ports/node-store.ts";
import type { NodeCredentials } from "../../ports/node-credentials.ts";
import type { Prober } from "../../ports/prober.ts";
import type { NodeEvent } from "../events/event-recorder.ts";
import type { PodEvent } from "../events/pod-events.ts";
import type { PressureCondition, Observation } from "../types/eviction-thresholds.ts";
import type { NodeOptions, NodeResources } from "../types/node-options.ts";
import type { ObjectCache } from "./object-cache.ts";
import type { Operations } from "./operations.ts";
import type { PodManager } from "../pod/pod-manager.ts";
import type { KnownStatuses } from "./known-statuses.ts";
import type { RelistRecord } from "./relist-record.ts";
import type { NodePod } from "../types/pod.ts";

export interface NodePorts {
  readonly cri: Cri;
  /** What sandboxes and containers that are up have said of themselves. */
  readonly known: KnownStatuses;
  readonly kube: KubeReader & KubeWriter;
  readonly store: NodeStore;
  readonly files: NodeFiles;
  readonly cgroups: Cgroups;
  readonly machine: Machine;
  readonly prober: Prober;
  /** Absent: the node has none. */
  readonly credentials?: NodeCredentials;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: Metrics;

  /** Pod objects: in the host's memory whatever `store` is. */
  readonly pods: PodManager;
  readonly operations: Operations;
  readonly puller: PullQueue;
  readonly containerManager: PodCgroups;
  /** What volumes take of their disks, as it was found out last. */
  readonly volumes: VolumeUsages;
  /** Secrets, ConfigMaps, Services and tokens, as they were last read. Never stored. */
  readonly objects: ObjectCache;
  readonly condition: NodeCondition;
  /** Best effort, in order. */
  readonly record: (event: NodeEvent) => void;
  readonly podEvent: (pod: NodePod, event: PodEvent) => void;
  /** Puts a message for this pod into the node's queue, or into the one of statuses. */
  readonly send: (queue: NodeQueue, uid: string, reason: string) => void;

  /** Reads the Node object anew into `condition`. */
  readonly readNode: () => Promise<void>;

  readonly options: NodeOptions;
  /** As the runtime calls itself: `containerd`. */
  readonly runtimeName: string;
  readonly resources: NodeResources;
}

/** ContainerManager, as the steps of a pod and the host see it. */
export interface PodCgroups {
  maintain(): Promise<void>;
  /** Whether the pod has its group, and whether this agent gave it its limits; where it makes none, both are so. */
  stateOf(pod: NodePod): Promise<{ readonly exists: boolean; readonly isBounded: boolean }>;
  /** @throws if there is no group afterwards */
  create(pod: NodePod): Promise<void>;
  /** Makes room for the limits of the pod's containers as they are now and as they will be. `settle` ends it. */
  widen(pod: NodePod): Promise<void>;
  settle(pod: NodePod): Promise<void>;
  /** Before something of the pod starts with other limits. */
  refit(pod: NodePod): Promise<void>;
  updateQos(): Promise<void>;
  /** Of pods that have a group, whoever made it. */
  podUids(): Promise<readonly string[]>;
  /** Processes and threads, by the UID of the pod. */
  processes(): Promise<ReadonlyMap<string, number>>;
  /** What all pods together have left of their limit. */
  memory(): Promise<Observation | undefined>;
  /** @throws while something does not go */
  destroy(podUid: string): Promise<void>;
  reduceCpu(podUid: string): Promise<void>;
}

/** The node's line of image pulls (ImagePuller). */
export interface PullQueue {
  pull<T>(signal: AbortSignal, act: () => Promise<T>): Promise<{ readonly value: T; readonly pullMs: number }>;
}

/** What volumes take of their disks (VolumeMeasures). */
export interface VolumeUsages {
  of(uid: string): ReadonlyMap<string, DiskUsage>;
  look(pods: readonly NodePod[]): void;
}

export type NodeQueue = "pods" | "statuses";

/** Which pod to look at, and why; never the pod (node-agent §18.2). */
export interface NodeMessage {
  readonly uid: string;
  /** For people who read logs. */
  readonly reason: string;
}

/** Takes the messages of one queue. What it throws brings the message back. */
export type NodeHandler = (message: NodeMessage) => Promise<void>;

/** What one turn finds out and others go by; rebuilt within seconds after a start. */
export interface NodeCondition {
  /** Of this host. */
  readonly startedAtMs: number;
  /** Why no pod can be worked on; absent = the runtime is well. */
  runtimeError?: string;
  /** Why pods without the host's network cannot start. */
  networkError?: string;
  /** The machine is being shut down (§14.8). */
  shuttingDown?: true;
  /** What the node runs short of, as its conditions say it; absent before the first look. */
  pressure?: readonly PressureCondition[];
  /** Every source has delivered, and what it delivered was handled (§2.6). */
  sourcesReady: boolean;
  /** Housekeeping has been through once: what the workers do not know does not run (§4.8). */
  syncedOnce: boolean;
  /** What the last relist saw; absent before the first. */
  relisted?: { readonly record: RelistRecord; readonly atMs: number };
  /** When the loop last did something. */
  lastLoopMs: number;
  /** The Node object as it was last seen, and its UID, which outlives its deletion. */
  node?: KubeObject;
  nodeUid?: string;
}
