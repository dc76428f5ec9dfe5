/**
 * The input of the page. `input.schema.json` is its schema. All times are milliseconds after `startMs`; objects refer to each other by
 * their index in `objects`.
 */

export interface TimelineInput {
  readonly version: 1;
  /** Name of the capture, as passed to the commands. */
  readonly source: string;
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  /** Milliseconds after `startMs`. */
  readonly endMs: number;
  /** Present for a running cluster. `options` are the options of `explain` that reach the cluster, if there are any. */
  readonly cluster?: { readonly options?: string };
  /** False with `--no-redact`; the page then shows a banner. */
  readonly redacted: boolean;
  /**
   * The objects. In a capture, each owner comes before its dependents, in lane order; in a running cluster, objects are in order of
   * appearance.
   */
  readonly objects: readonly TimelineObject[];
  readonly marks: readonly Mark[];
  /** Worst first. */
  readonly verdicts: readonly TimelineVerdict[];
  /** Causes first; findings that ended before the end of the capture come last. */
  readonly findings: readonly TimelineFinding[];
  readonly gaps: readonly Gap[];
}

/** Kinds of objects. Nodes and ResourceQuotas are included only if a finding concerns them. */
export type Kind = "Deployment" | "ReplicaSet" | "ReplicationController" | "Pod" | "Node" | "ResourceQuota";

export interface TimelineObject {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
  readonly owner?: number;
  readonly from: number;
  /** Time of deletion; absent if the object exists at the end. */
  readonly until?: number;
  readonly revision?: number;
  readonly images?: readonly string[];
  readonly node?: string;
  /** For a pod, a Node and a ResourceQuota: its states, each valid until the next. */
  readonly states?: readonly PodStep[];
  /** For an owner: its sizes, each valid until the next. */
  readonly sizes?: readonly SizeStep[];
  /** Times of a pod's recorded container restarts. */
  readonly restarts?: readonly number[];
  readonly changes: readonly Change[];
}

export type PodState = "pending" | "starting" | "pulling" | "waiting" | "running" | "ready" | "terminating" | "failed" | "succeeded";
export type PodStep = readonly [at: number, state: PodState, reason?: string];
export type SizeStep = readonly [at: number, desired: number, ready: number, available: number];

/** The difference to the previous recorded version of an object. */
export interface Change {
  readonly at: number;
  readonly what: "exists" | "created" | "changed" | "deleted";
  /** The user or field manager that made the change. */
  readonly by?: string;
  /** Whether the change affects the desired state, for example an image or a size. */
  readonly isRequest?: true;
  readonly differences: readonly Difference[];
}

/** A changed field. Without `from` and `to`, the value is redacted. */
export interface Difference {
  readonly field: string;
  readonly from?: string;
  readonly to?: string;
}

export interface Mark {
  /** A sync of deltaloop's controllers that decides; a rejected request; an Event; a write of upstream's controllers in shadow mode. */
  readonly kind: "sync" | "refusal" | "event" | "shadow";
  readonly at: number;
  readonly object: number;
  readonly title: string;
  readonly isWarning?: true;
  readonly by?: string;
  readonly lines?: readonly string[];
  readonly reasons?: readonly MarkReason[];
}

export interface MarkReason {
  readonly text: string;
  /** `deployment §11.3`, of docs/internals/spec. */
  readonly rule?: string;
}

export interface TimelineVerdict {
  readonly object: number;
  readonly health: string;
  readonly effect: string;
  readonly changed: readonly string[];
  readonly waits: readonly string[];
}

export interface TimelineFinding {
  /** Index of the workload. */
  readonly workload: number;
  readonly level: "cause" | "wait" | "effect";
  readonly cause: string;
  readonly confidence: "certain" | "likely";
  /** Indexes of the objects, the most important one first. */
  readonly objects: readonly number[];
  readonly evidence: readonly string[];
  readonly help: readonly string[];
  readonly from: number;
  readonly begin: Begin;
  /** The last moment at which a check found the finding. Absent if it persists at the end. */
  readonly until?: number;
}

/**
 * The origin of `from`: the time of a record; a time in whole seconds that an object states; a stated time before the recording; or the
 * time of the first check that found the finding.
 */
export interface Begin {
  readonly clock: "recorded" | "stated" | "earlier" | "checked";
  /** Description of the record, or the earlier time. */
  readonly what?: string;
}

/** New data of a running cluster. */
export interface TimelineUpdate {
  readonly endMs: number;
  /** New and changed objects by index. `changes` and `sizes` contain only new entries. */
  readonly objects: readonly (readonly [index: number, object: TimelineObject])[];
  readonly marks: readonly Mark[];
  readonly gaps: readonly Gap[];
  /** Absent if unchanged. */
  readonly verdicts?: readonly TimelineVerdict[];
  readonly findings?: readonly TimelineFinding[];
}

/** A period whose changes the capture lacks. */
export interface Gap {
  readonly from: number;
  readonly until: number;
  readonly resource: string;
}
