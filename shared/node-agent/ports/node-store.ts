/**
 * What a node agent remembers that neither CRI, the API server nor the manifests know (node-agent §18.4). No pod object, no
 * secret, no environment value ever stands in it. Losing all of it is a kubelet restart, never more (§18.9).
 *
 * NS1 `update` is atomic: no other change comes between the input and the result of `change`. `change` is pure and
 *    may be called more than once; answering `undefined` removes the row, answering its argument writes nothing.
 * NS2 with a `fence`, `update` changes nothing and answers `refused` unless the row of `workers` under `fence.uid` has that token:
 *    a turn that lost its message to another one cannot write any more (§18.5).
 * NS3 a read sees every update that was answered before it began. Rows are plain JSON.
 * NS4 `schedule` keeps one due time per key, the last one written; `takeDue` hands out each key that is due once, and forgets it.
 * NS5 any row may be missing at any time; `rows` is complete at some moment during the call, in no order.
 */
import type { Wire } from "@deltaloop/kube/objects";
import type { V1PodStatus, V1ResourceRequirements } from "@kubernetes/client-node";

export interface NodeStore {
  read<T extends NodeTable>(table: T, key: string): Promise<NodeRow<T> | undefined>;
  /** @returns the row as it stands afterwards */
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
  /** Key: full name `<pod>_<namespace>`: which static pods of that name wait to start, and which one has (§4.5). */
  readonly staticPods: StaticStart;
  /** Key: UID. */
  readonly statuses: CachedStatus;
  /** Key: UID; container name → why its last start failed (§9, the reason cache). */
  readonly reasons: Readonly<Record<string, WaitingReason>>;
  /** Key: UID. */
  readonly restarts: Restarts;
  /** Key: UID. The one table that is also kept on disk (shared/node-agent/kubelet/allocation/allocation-manager.ts). */
  readonly allocations: PodAllocation;
  /** Key: of a restart (§6.8) or of an image pull (§8). */
  readonly backOffs: BackOffEntry;
  /** Key: `<uid>/<container>/<kind>`. */
  readonly probes: ProbeRecord;
}

/** One pod's worker (§4.1). Times are milliseconds since the epoch. */
export interface WorkerRecord {
  readonly fullName: string;
  readonly isStatic: boolean;
  readonly syncedAtMs: number;
  /** The start gate let it begin. */
  readonly startedAtMs?: number;
  readonly terminatingAtMs?: number;
  /** Acknowledged by a turn: no container of it is ever started again. */
  readonly startedTerminating?: true;
  readonly terminatedAtMs?: number;
  readonly finished?: true;
  /** Effective; 0 = none given yet, at least 1 once terminating. */
  readonly gracePeriodSeconds: number;
  /** `spec.terminationGracePeriodSeconds` of the newest update that had a spec; absent: no spec of it was ever seen. */
  readonly specGracePeriodSeconds?: number;
  readonly deleted?: true;
  readonly evicted?: true;
  readonly restartRequested?: true;
  readonly observedRuntime?: true;
  /** Set while an update has come that no turn has taken. */
  readonly pending?: PendingUpdate;
  /** What kills want the status to say, in order of arrival; the last one's counts. */
  readonly abnormalTerminations: readonly AbnormalTermination[];
  /** Grows by one with each turn: who holds the newest may write (§18.5). */
  readonly token: number;
  /** Nothing observed before this may be decided on. */
  readonly lastTurnEndedAtMs?: number;
}

export interface PendingUpdate {
  readonly kind: UpdateKind;
  /** Of the oldest update that this one replaced. */
  readonly sinceMs: number;
  /** Known at runtime only: no spec of it was ever seen. */
  readonly runtimeOnly?: true;
}

export type UpdateKind = "create" | "update" | "sync" | "kill";

/** Status fields that an eviction, a shutdown of the machine or the like asks for. */
export interface AbnormalTermination {
  readonly phase: "Failed" | "Succeeded";
  readonly reason: string;
  readonly message: string;
  /** Of a pod that could have run on: condition DisruptionTarget. */
  readonly isDisruption?: true;
  /** That condition's. Default: the status'. */
  readonly disruptionMessage?: string;
  /** One that had succeeded by itself stays so. */
  readonly unlessSucceeded?: true;
}

export interface StaticStart {
  readonly startedUid?: string;
  /** In order of arrival. */
  readonly waitingUids: readonly string[];
}

export type PodStatus = Wire<V1PodStatus>;

/** The last status computed for a pod (§13.5). */
export interface CachedStatus {
  readonly status: PodStatus;
  /** Grows with every accepted change, from 1. */
  readonly version: number;
  /** The version that the API server was last brought to; 0 = none. */
  readonly sentVersion: number;
  /** TerminatePod was called: nothing of it runs or is mounted any more. Never taken back. */
  readonly podIsFinished?: true;
  /** When the first change came that is not sent. */
  readonly changedAtMs: number;
  /** What the API server has of the pod with this UID (of a static pod: its mirror), by its last answer to this node; absent: it has to be asked. */
  readonly answered?: { readonly uid: string; readonly status: PodStatus };
}

export interface WaitingReason {
  readonly reason: string;
  readonly message: string;
}

/**
 * Container name → id of the instance that the agent ends, or has ended, so that the next one starts (§6.6). Whatever that instance
 * ends with, its container is to be started.
 */
export type Restarts = Readonly<Record<string, string>>;

/** Amounts as the pod's spec writes them. */
export type ContainerResources = Wire<V1ResourceRequirements>;

/** What this node has granted to a pod, which may be other than what its spec asks for by now (§6.11). */
export interface PodAllocation {
  /** By name; init containers too. */
  readonly containers: Readonly<Record<string, ContainerAllocation>>;
  /** The spec asks for something else, and why it was not granted yet. */
  readonly pending?: ResizeCondition & { readonly reason: "Deferred" | "Infeasible" };
  /** Granted, and not all of it set in the runtime. */
  readonly inProgress?: ResizeCondition & { readonly reason?: "Error" };
}

export interface ContainerAllocation {
  readonly allocated: ContainerResources;
  /** The settings of the newest instance, or the last update; absent when not recorded. */
  readonly actuated?: ContainerResources;
}

export interface ResizeCondition {
  readonly message?: string;
  /** Of the pod, when it came to this. */
  readonly observedGeneration: number;
  readonly sinceMs: number;
}

export interface BackOffEntry {
  readonly delayMs: number;
  readonly lastUpdateMs: number;
  /** Why it waits, for people; of image pulls. */
  readonly cause?: string;
}

export type ProbeKind = "readiness" | "liveness" | "startup";
export type ProbeResult = "Success" | "Failure" | "Unknown";

/** Counters of one probe (§11). */
export interface ProbeRecord {
  /** The container it counts for; empty before the first. */
  readonly containerId: string;
  /** What is published; absent until there is something to publish. */
  readonly result?: ProbeResult;
  readonly lastOutcome?: ProbeResult;
  /** How often `lastOutcome` came in a row. */
  readonly run: number;
  /** A failed liveness or startup probe waits for a new container. */
  readonly onHold?: true;
  /** Nothing is left to probe: it stays as the last word about its container. */
  readonly stopped?: true;
}
