/**
 * Computes the changes that a message of one pod source makes (node-agent §2.5).
 *
 *     known 1 2 3, SET 2' 3 4   →   REMOVE 1, ADD 4, UPDATE 2'
 */
import { CONFIG_ANNOTATIONS, type PodSource } from "../types/labels.ts";
import { jsonEqual } from "../types/json-equal.ts";
import { fullName, type NodePod } from "../types/pod.ts";

export type ConfigOp = "ADD" | "UPDATE" | "DELETE" | "REMOVE" | "RECONCILE";

/** `DELETE` starts a graceful deletion, which a pod worker handles as an update; `REMOVE` means that the pod no longer exists. */
export interface PodChange {
  readonly op: ConfigOp;
  readonly pod: NodePod;
}

/** `SET` contains all pods of the source; of the pods in a `REMOVE`, only the UIDs are used. */
export type SourceMessage = { readonly op: "SET" | "ADD" | "UPDATE" | "DELETE" | "REMOVE"; readonly pods: readonly NodePod[] };

export interface SourceState {
  /** Pods by UID. */
  readonly pods: ReadonlyMap<string, NodePod>;
  /** Whether a SET has been received. */
  readonly seen: boolean;
}

export const UNSEEN_SOURCE: SourceState = { pods: new Map(), seen: false };

export interface Classified {
  readonly state: SourceState;
  /** The changes in processing order: REMOVE, ADD, UPDATE, DELETE, RECONCILE. */
  readonly changes: readonly PodChange[];
  /** Whether the first SET of a source was empty. An empty SET also makes its source ready. */
  readonly emptyAdd: boolean;
  /** Pods that are ignored with the warning `FailedValidation`, because an earlier pod of the message has the same full name. */
  readonly duplicates: readonly NodePod[];
}

/** Annotations that are never compared and that keep their first values. */
const LOCAL_ANNOTATIONS: readonly string[] = [CONFIG_ANNOTATIONS.source, CONFIG_ANNOTATIONS.mirror, CONFIG_ANNOTATIONS.seen];
/** The object from which each known pod was made, to recognize an object that is sent again. */
const sentPods = new WeakMap<NodePod, NodePod>();
const ORDER: readonly ConfigOp[] = ["REMOVE", "ADD", "UPDATE", "DELETE", "RECONCILE"];

/** Merges `message` into the state of its source. Source: pkg/kubelet/config/config.go podStorage.Merge, merge. */
export function classify(state: SourceState, source: PodSource, message: SourceMessage, nowMs: number): Classified {
  if (message.op === "REMOVE") return remove(state, message.pods);
  const { unique, duplicates } = withoutDuplicates(message.pods);
  const pods = new Map(message.op === "SET" ? [] : state.pods);
  const changes: PodChange[] = [];
  for (const sent of unique) {
    const known = state.pods.get(sent.metadata.uid);
    const isResent = known !== undefined && sentPods.get(known) === sent;
    const { pod, op }: Merged = isResent ? { pod: known } : merge(known, annotated(sent, { [CONFIG_ANNOTATIONS.source]: source }), nowMs);
    sentPods.set(pod, sent);
    pods.set(pod.metadata.uid, pod);
    if (op !== undefined) changes.push({ op, pod });
  }
  for (const [uid, pod] of state.pods) if (!pods.has(uid)) changes.push({ op: "REMOVE", pod });
  return {
    state: { pods, seen: state.seen || message.op === "SET" },
    changes: ORDER.flatMap((op) => changes.filter((change) => change.op === op)),
    emptyAdd: !state.seen && message.op === "SET" && !changes.some(({ op }) => op === "ADD" || op === "UPDATE" || op === "DELETE"),
    duplicates,
  };
}

function remove(state: SourceState, gone: readonly NodePod[]): Classified {
  const pods = new Map(state.pods);
  const changes: PodChange[] = [];
  for (const { metadata } of gone) {
    const pod = pods.get(metadata.uid);
    if (pod !== undefined && pods.delete(metadata.uid)) changes.push({ op: "REMOVE", pod });
  }
  return { state: { ...state, pods }, changes, emptyAdd: false, duplicates: [] };
}

/** Source: config.go filterInvalidPods. */
function withoutDuplicates(pods: readonly NodePod[]): { readonly unique: readonly NodePod[]; readonly duplicates: readonly NodePod[] } {
  const names = new Set<string>();
  const [unique, duplicates]: [NodePod[], NodePod[]] = [[], []];
  for (const pod of pods) {
    const name = fullName(pod);
    (names.has(name) ? duplicates : unique).push(pod);
    names.add(name);
  }
  return { unique, duplicates };
}

interface Merged {
  readonly pod: NodePod;
  /** Absent if nothing relevant has changed. */
  readonly op?: ConfigOp;
}

/**
 * Returns the pod to store, and the operation. Source: config.go checkAndUpdatePod. Differs from upstream: replaces all metadata except
 * the identity, so that the resourceVersion matches the spec.
 */
function merge(known: NodePod | undefined, sent: NodePod, nowMs: number): Merged {
  if (known === undefined) return { pod: annotated(sent, { [CONFIG_ANNOTATIONS.seen]: new Date(nowMs).toISOString() }), op: "ADD" };
  if (!differ(known, sent)) {
    if (jsonEqual(known.status, sent.status)) return { pod: known };
    const { status: _old, ...rest } = known;
    // Stores the spec of the sent object, so that the next comparison with the same object is a comparison of references.
    return { pod: { ...rest, spec: sent.spec, ...(sent.status !== undefined && { status: sent.status }) }, op: "RECONCILE" };
  }
  const { uid, name, namespace, annotations = {} } = known.metadata;
  const local = Object.fromEntries(Object.entries(annotations).filter(([key]) => LOCAL_ANNOTATIONS.includes(key)));
  const merged = annotated(sent, local);
  const pod = { ...merged, metadata: { ...merged.metadata, uid, name, namespace } };
  return { pod, op: sent.metadata.deletionTimestamp === undefined ? "UPDATE" : "DELETE" };
}

/** Source: config.go podsDifferSemantically, isAnnotationMapEqual. */
function differ(known: NodePod, sent: NodePod): boolean {
  const [a, b] = [known.metadata, sent.metadata];
  return (
    a.deletionTimestamp !== b.deletionTimestamp ||
    a.deletionGracePeriodSeconds !== b.deletionGracePeriodSeconds ||
    !jsonEqual(a.labels ?? {}, b.labels ?? {}) ||
    !jsonEqual(comparedAnnotations(known), comparedAnnotations(sent)) ||
    !jsonEqual(known.spec, sent.spec)
  );
}

function comparedAnnotations({ metadata: { annotations = {} } }: NodePod): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => !LOCAL_ANNOTATIONS.includes(key)));
}

function annotated(pod: NodePod, annotations: Readonly<Record<string, string>>): NodePod {
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } } };
}
