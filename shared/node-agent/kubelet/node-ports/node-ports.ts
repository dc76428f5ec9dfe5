/** The dependencies of the node agent, and the state that lives as long as the host (node-agent §18). */
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
import type { CertificateSource, KeyAndChain } from "../types/projected-sources.ts";
import type { ObjectCache } from "./object-cache.ts";
import type { Operations } from "./operations.ts";
import type { PodManager } from "../pod/pod-manager.ts";
import type { KnownStatuses } from "./known-statuses.ts";
import type { RelistRecord } from "./relist-record.ts";
import type { NodePod } from "../types/pod.ts";

export interface NodePorts {
  readonly cri: Cri;
  readonly known: KnownStatuses;
  readonly kube: KubeReader & KubeWriter;
  readonly store: NodeStore;
  readonly files: NodeFiles;
  readonly cgroups: Cgroups;
  readonly machine: Machine;
  readonly prober: Prober;
  /** Absent if no registry credentials are configured. */
  readonly credentials?: NodeCredentials;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics?: Metrics;

  /** Desired pods, in memory only, independent of `store`. */
  readonly pods: PodManager;
  readonly operations: Operations;
  readonly puller: PullQueue;
  readonly containerManager: PodCgroups;
  /** Latest volume measurements. */
  readonly volumes: VolumeUsages;
  /** Cached Secrets, ConfigMaps, ClusterTrustBundles, Services and tokens; in memory only. */
  readonly objects: ObjectCache;
  /** Keys and certificates of pods. Never stored. */
  readonly podCertificates: PodCredentials;
  readonly condition: NodeCondition;
  /** Records an Event. Best effort; Events are sent in order. */
  readonly record: (event: NodeEvent) => void;
  readonly podEvent: (pod: NodePod, event: PodEvent) => void;
  /** Enqueues the pod in the pod or status queue. */
  readonly send: (queue: NodeQueue, uid: string, reason: string) => void;

  /** Reads the Node object into `condition`. */
  readonly readNode: () => Promise<void>;

  readonly options: NodeOptions;
  /** Name of the runtime, such as `containerd`. */
  readonly runtimeName: string;
  readonly resources: NodeResources;
}

/** The methods of ContainerManager. */
export interface PodCgroups {
  maintain(): Promise<void>;
  /** Whether the cgroup exists, and whether this agent has set its limits. Both are true if cgroups are disabled. */
  stateOf(pod: NodePod): Promise<{ readonly exists: boolean; readonly isBounded: boolean }>;
  /** @throws if the cgroup cannot be created */
  create(pod: NodePod): Promise<void>;
  /** Sets each limit to the larger of the current and the new value; call `settle` afterwards. */
  widen(pod: NodePod): Promise<void>;
  settle(pod: NodePod): Promise<void>;
  /** Updates the limits before a container starts with different limits. */
  refit(pod: NodePod): Promise<void>;
  updateQos(): Promise<void>;
  /** Returns the UIDs of pods with a cgroup, including pods of other processes. */
  podUids(): Promise<readonly string[]>;
  /** Returns the number of processes and threads by pod UID. */
  processes(): Promise<ReadonlyMap<string, number>>;
  /** Returns the memory that is left below the common limit of all pods. */
  memory(): Promise<Observation | undefined>;
  /** @throws while the cgroup is busy */
  destroy(podUid: string): Promise<void>;
  reduceCpu(podUid: string): Promise<void>;
}

/** The methods of PodCertificates. */
export interface PodCredentials {
  /** @throws {VolumeError} while there are none, and permanently once the request was denied */
  current(pod: NodePod, from: CertificateSource): Promise<KeyAndChain>;
  /** Drops the keys of a deleted pod. */
  forget(podUid: string): void;
}

/** The methods of ImagePuller. */
export interface PullQueue {
  pull<T>(signal: AbortSignal, act: () => Promise<T>): Promise<{ readonly value: T; readonly pullMs: number }>;
}

/** The methods of VolumeMeasures. */
export interface VolumeUsages {
  of(uid: string): ReadonlyMap<string, DiskUsage>;
  measureDue(pods: readonly NodePod[]): void;
}

export type NodeQueue = "pods" | "statuses";

/** The pod to sync and the reason. A message never contains the pod itself (node-agent §18.2). */
export interface NodeMessage {
  readonly uid: string;
  /** Reason for the sync, for logs. */
  readonly reason: string;
}

/** Handles messages of one queue. If it throws, the message is redelivered. */
export type NodeHandler = (message: NodeMessage) => Promise<void>;

/** Shared observations, which are rebuilt within seconds after a start. */
export interface NodeCondition {
  readonly startedAtMs: number;
  /** Why no pod can be synced; absent if the runtime is healthy. */
  runtimeError?: string;
  /** Why pods without host networking cannot start. */
  networkError?: string;
  /** Set while the machine is shutting down (§14.8). */
  shuttingDown?: true;
  /** Current pressure conditions; absent before the first measurement. */
  pressure?: readonly PressureCondition[];
  /** Whether every source has delivered its pods and all these messages have been handled (§2.6). */
  sourcesReady: boolean;
  /** Whether housekeeping has run. From then on, pods without a worker do not run (§4.8). */
  syncedOnce: boolean;
  /** The last relist; absent before the first one. */
  relisted?: { readonly record: RelistRecord; readonly atMs: number };
  /** Time of the last sync loop activity. */
  lastLoopMs: number;
  /** The last Node object, and its UID. Both are kept after the Node is deleted. */
  node?: KubeObject;
  nodeUid?: string;
}
