/**
 * The node agent's own state, which neither CRI, the API server nor the manifests have (node-agent §18.4). It never contains pod objects,
 * secrets or environment values. Losing it equals a kubelet restart (§18.9).
 *
 * NS1 `update` is atomic: no other change comes between the input and the result of `change`. `change` is pure and
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
  /** Key → due time. */
  agenda(agenda: Agenda): Promise<ReadonlyMap<string, number>>;
}

/** `pods`: UIDs to sync (§4.6's work queue). `probes`: probe keys to run. */
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
  /** Key: UID. */
  readonly workers: WorkerRecord;
  /** Key: full name `<pod>_<namespace>`. The started static pod of that name, and those that wait (§4.5). */
  readonly staticPods: StaticStart;
  /** Key: UID. */
  readonly statuses: CachedStatus;
  /** Key: UID. Container name → reason of its last failed start (§9, the reason cache). */
  readonly reasons: Readonly<Record<string, WaitingReason>>;
  /** Key: UID. */
  readonly restarts: Restarts;
  /** Key: UID. The only table with a checkpoint on disk (shared/node-agent/kubelet/allocation/allocation-manager.ts). */
  readonly allocations: PodAllocation;
  /** Key: a container restart (§6.8) or an image pull (§8). */
  readonly backOffs: BackOffEntry;
  /** Key: `<uid>/<container>/<kind>`. */
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
  /** Whether a sync iteration has seen the termination, after which no container of the pod is started. */
  readonly startedTerminating?: true;
  readonly terminatedAtMs?: number;
  readonly finished?: true;
  /** The effective value; 0 = not set yet, at least 1 once terminating. */
  readonly gracePeriodSeconds: number;
  /** `spec.terminationGracePeriodSeconds` of the last update with a spec; absent if no spec was seen yet. */
  readonly specGracePeriodSeconds?: number;
  readonly deleted?: true;
  readonly evicted?: true;
  readonly restartRequested?: true;
  readonly observedRuntime?: true;
  /** The newest update that no sync iteration has taken. */
  readonly pending?: PendingUpdate;
  /** Status changes that evictions and shutdowns request, in order of arrival; the last change applies. */
  readonly abnormalTerminations: readonly AbnormalTermination[];
  /** Incremented by each sync iteration; only the holder of the newest token may write (§18.5). */
  readonly token: number;
  /** Time before which observations must not be used. */
  readonly lastTurnEndedAtMs?: number;
}

export interface PendingUpdate {
  readonly kind: UpdateKind;
  /** Arrival of the oldest update that this update replaced. */
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
  /** Message of that condition. Default: `message`. */
  readonly disruptionMessage?: string;
  /** Whether the fields do not apply to a pod that has succeeded. */
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
  /** Starts at 1 and grows with every accepted change. */
  readonly version: number;
  /** The last version sent to the API server; 0 if none was sent. */
  readonly sentVersion: number;
  /** Whether all containers have ended and volumes are unmounted (TerminatePod). Never reset. */
  readonly podIsFinished?: true;
  /** Time of the first change that is not sent. */
  readonly changedAtMs: number;
  /** The API server's last response for this UID (the mirror pod's for a static pod); if absent, a GET is needed. */
  readonly answered?: { readonly uid: string; readonly status: PodStatus };
}

export interface WaitingReason {
  readonly reason: string;
  readonly message: string;
}

/** Container name → id of the instance that the agent stops for a restart (§6.6). The container restarts regardless of the exit code. */
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
  /** The settings at the container's start or of the last update; absent when not recorded. */
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
  /** The reason why an image pull waits, as shown to users. */
  readonly cause?: string;
}

export type ProbeKind = "readiness" | "liveness" | "startup";
export type ProbeResult = "Success" | "Failure" | "Unknown";

/** Counters of one probe (§11). */
export interface ProbeRecord {
  /** The container that is probed; empty before the first container. */
  readonly containerId: string;
  /** The published result; absent until the first result. */
  readonly result?: ProbeResult;
  readonly lastOutcome?: ProbeResult;
  /** Number of consecutive occurrences of `lastOutcome`. */
  readonly run: number;
  /** Whether a failed liveness or startup probe waits for a new container. */
  readonly onHold?: true;
  /** Whether there is nothing left to probe; the result stays. */
  readonly stopped?: true;
}
