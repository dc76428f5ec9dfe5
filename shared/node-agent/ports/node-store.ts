/**
 * The node agent's own state, which is not available from CRI, the API server or the manifests (node-agent §18.4). It never contains pod
 * objects, secrets or environment values. Losing it has the same effect as a kubelet restart (§18.9).
 *
 * NS1 `update` is atomic: no other change happens between the input and the result of `change`. `change` is pure and
 *    may be called more than once; returning `undefined` removes the row, returning its argument writes nothing.
 * NS2 with a `fence`, `update` changes nothing and returns `refused` unless the row of `workers` at `fence.uid` has that token: a sync
 *    iteration that was superseded cannot write (§18.5).
 * NS3 a read sees every update that completed before it began. Rows are plain JSON.
 * NS4 `schedule` keeps one due time per key, the last one written; `takeDue` returns each due key once and removes it.
 * NS5 any row may be missing at any time; `rows` is a consistent, unordered snapshot.
 */
import type { Wire } from "@deltaloop/kube/objects";
import type { V1PodStatus, V1ResourceRequirements } from "@kubernetes/client-node";

export interface NodeStore {
  read<T extends NodeTable>(table: T, key: string): Promise<NodeRow<T> | undefined>;
  /** @returns the row after the update */
  update<T extends NodeTable>(table: T, key: string, change: RowChange<T>): Promise<NodeRow<T> | undefined>;
  update<T extends NodeTable>(table: T, key: string, change: RowChange<T>, fence: Fence): Promise<NodeRow<T> | "refused" | undefined>;
  rows<T extends NodeTable>(table: T): Promise<ReadonlyMap<string, NodeRow<T>>>;

  schedule(agenda: Agenda, key: string, dueMs: number): Promise<void>;
  unschedule(agenda: Agenda, key: string): Promise<void>;
  takeDue(agenda: Agenda, nowMs: number): Promise<readonly string[]>;
  /** Returns the due times by key. */
  agenda(agenda: Agenda): Promise<ReadonlyMap<string, number>>;
}

/** `pods` has the UIDs to sync (the work queue of §4.6); `probes` has the probe keys to run. */
export type Agenda = "pods" | "probes";

export interface Fence {
  readonly uid: string;
  readonly token: number;
}

export type RowChange<T extends NodeTable> = (row: NodeRow<T> | undefined) => NodeRow<T> | undefined;
export type NodeTable = keyof NodeTables;
export const NODE_TABLES = [
  "workers",
  "staticPods",
  "statuses",
  "reasons",
  "restarts",
  "allocations",
  "backOffs",
  "probes",
] as const satisfies readonly NodeTable[];
export type NodeRow<T extends NodeTable> = NodeTables[T];

export interface NodeTables {
  /** Keyed by UID. */
  readonly workers: WorkerRecord;
  /** Keyed by full name, `<pod>_<namespace>`. The static pod of that name that has started, and those that wait (§4.5). */
  readonly staticPods: StaticStart;
  /** Keyed by UID. */
  readonly statuses: CachedStatus;
  /** Keyed by UID. The reason of the last failed start, by container name (§9, the reason cache). */
  readonly reasons: Readonly<Record<string, WaitingReason>>;
  /** Keyed by UID. */
  readonly restarts: Restarts;
  /** Keyed by UID. The only table with a checkpoint on disk (shared/node-agent/kubelet/allocation/allocation-manager.ts). */
  readonly allocations: PodAllocation;
  /** Keyed by container restart (§6.8) or image pull (§8). */
  readonly backOffs: BackOffEntry;
  /** Keyed by `<uid>/<container>/<kind>`. */
  readonly probes: ProbeRecord;
}

/** One pod's worker (§4.1). Times are milliseconds since the epoch. */
export interface WorkerRecord {
  readonly fullName: string;
  readonly isStatic: boolean;
  readonly syncedAtMs: number;
  /** Time at which the pod was allowed to start. */
  readonly startedAtMs?: number;
  readonly terminatingAtMs?: number;
  /** Whether a sync iteration has observed the termination. After that, no container of the pod is started. */
  readonly startedTerminating?: true;
  readonly terminatedAtMs?: number;
  readonly finished?: true;
  /** The effective grace period. 0 means not set yet; it is at least 1 once the pod is terminating. */
  readonly gracePeriodSeconds: number;
  /** `spec.terminationGracePeriodSeconds` of the last update with a spec; absent if there was no such update. */
  readonly specGracePeriodSeconds?: number;
  readonly deleted?: true;
  readonly evicted?: true;
  readonly restartRequested?: true;
  readonly observedRuntime?: true;
  /** The newest update that no sync iteration has taken yet. */
  readonly pending?: PendingUpdate;
  /** Status changes that evictions and shutdowns request, in order of arrival. Only the last one is applied. */
  readonly abnormalTerminations: readonly AbnormalTermination[];
  /** Incremented by each sync iteration; only the holder of the newest token may write (§18.5). */
  readonly token: number;
  /** Observations from before this time must not be used. */
  readonly lastTurnEndedAtMs?: number;
}

export interface PendingUpdate {
  readonly kind: UpdateKind;
  /** Time of arrival of the oldest update that this update has replaced. */
  readonly sinceMs: number;
  /** Whether the pod is known only from the runtime, without a spec. */
  readonly runtimeOnly?: true;
}

export type UpdateKind = "create" | "update" | "sync" | "kill";

/** Status fields that an eviction, a node shutdown or a preemption requests. */
export interface AbnormalTermination {
  readonly phase: "Failed" | "Succeeded";
  readonly reason: string;
  readonly message: string;
  /** Sets the condition DisruptionTarget. */
  readonly isDisruption?: true;
  /** Message of that condition. Default: the value of `message`. */
  readonly disruptionMessage?: string;
  /** Whether the fields apply only if the pod has not succeeded. */
  readonly unlessSucceeded?: true;
}

export interface StaticStart {
  readonly startedUid?: string;
  /** UIDs of waiting pods in order of arrival. */
  readonly waitingUids: readonly string[];
}

export type PodStatus = Wire<V1PodStatus>;

/** The last status computed for a pod (§13.5). */
export interface CachedStatus {
  readonly status: PodStatus;
  /** Starts at 1, and increases with every accepted change. */
  readonly version: number;
  /** The last version sent to the API server; 0 if none was sent. */
  readonly sentVersion: number;
  /** Whether all containers have ended and volumes are unmounted (TerminatePod). Never reset. */
  readonly podIsFinished?: true;
  /** Time of the first change that has not been sent. */
  readonly changedAtMs: number;
  /** The last response of the API server for this UID (for a static pod, its mirror pod's UID). If absent, a GET is needed. */
  readonly answered?: { readonly uid: string; readonly status: PodStatus };
}

export interface WaitingReason {
  readonly reason: string;
  readonly message: string;
}

/** The instances that the agent stops for a restart (§6.6), by container name. These containers restart regardless of their exit code. */
export type Restarts = Readonly<Record<string, string>>;

/** Quantities as written in the pod's spec. */
export type ContainerResources = Wire<V1ResourceRequirements>;

/** Resources that this node has granted to a pod; they may differ from its current spec (§6.11). */
export interface PodAllocation {
  /** Allocations by container name, including init containers. */
  readonly containers: Readonly<Record<string, ContainerAllocation>>;
  /** A resize that is not granted yet, and the reason. */
  readonly pending?: ResizeCondition & { readonly reason: "Deferred" | "Infeasible" };
  /** A granted resize that is not fully applied in the runtime. */
  readonly inProgress?: ResizeCondition & { readonly reason?: "Error" };
}

export interface ContainerAllocation {
  readonly allocated: ContainerResources;
  /** The settings at the start of the container or of its last update; absent if not recorded. */
  readonly actuated?: ContainerResources;
}

export interface ResizeCondition {
  readonly message?: string;
  /** The pod's generation when the condition was set. */
  readonly observedGeneration: number;
  readonly sinceMs: number;
}

export interface BackOffEntry {
  readonly delayMs: number;
  readonly lastUpdateMs: number;
  /** Why an image pull waits, as shown to users. */
  readonly cause?: string;
}

export type ProbeKind = "readiness" | "liveness" | "startup";
export type ProbeResult = "Success" | "Failure" | "Unknown";

/** Counters of one probe (§11). */
export interface ProbeRecord {
  /** Id of the container that is probed; empty before the first container. */
  readonly containerId: string;
  /** The published result; absent before the first result. */
  readonly result?: ProbeResult;
  readonly lastOutcome?: ProbeResult;
  /** Length of the current run of equal outcomes (`lastOutcome`). */
  readonly run: number;
  /** Whether a failed liveness or startup probe waits for a new container. */
  readonly onHold?: true;
  /** Whether the probe has permanently ended; its result is kept. */
  readonly stopped?: true;
}
