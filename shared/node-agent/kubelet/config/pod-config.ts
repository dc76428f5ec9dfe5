/**
 * What one pod source has changed (node-agent §2.5): the list or the pods it sent, against what it sent before.
 *
 *     known 1 2 3, SET 2' 3 4   →   REMOVE 1, ADD 4, UPDATE 2'
 */
import { CONFIG_ANNOTATIONS } from "../types/labels.ts";
import type { PodSource } from "../types/labels.ts";
import { jsonEqual } from "../types/json-equal.ts";
import { fullName } from "../types/pod.ts";
import type { NodePod } from "../types/pod.ts";

export type ConfigOp = "ADD" | "UPDATE" | "DELETE" | "REMOVE" | "RECONCILE";

/** `DELETE` is the beginning of a graceful deletion, and an update downstream; `REMOVE` says that the pod is gone. */
export interface PodChange {
  readonly op: ConfigOp;
  readonly pod: NodePod;
}

/** `SET` carries all pods of the source; of a `REMOVE` only the UIDs count. */
export type SourceMessage = { readonly op: "SET" | "ADD" | "UPDATE" | "DELETE" | "REMOVE"; readonly pods: readonly NodePod[] };

export interface SourceState {
  /** By UID. */
  readonly pods: ReadonlyMap<string, NodePod>;
  /** A SET has come. */
  readonly seen: boolean;
}

export const UNSEEN_SOURCE: SourceState = { pods: new Map(), seen: false };

export interface Classified {
  readonly state: SourceState;
  /** In the order in which they are to be handled: REMOVE, ADD, UPDATE, DELETE, RECONCILE. */
  readonly changes: readonly PodChange[];
  /** The first SET came and brought nothing: the loop still learns that the source is there. */
  readonly emptyAdd: boolean;
  /** Left out, because a pod before them in this message has their full name; Warning `FailedValidation`. */
  readonly duplicates: readonly NodePod[];
}

/** Never compared, and kept as they were first known. */
const LOCAL_ANNOTATIONS: readonly string[] = [CONFIG_ANNOTATIONS.source, CONFIG_ANNOTATIONS.mirror, CONFIG_ANNOTATIONS.seen];
/** Of which sent object a pod that is known was made: whatever a source sends once more is told at a glance. */
const madeOf = new WeakMap<NodePod, NodePod>();
const ORDER: readonly ConfigOp[] = ["REMOVE", "ADD", "UPDATE", "DELETE", "RECONCILE"];

/**
 * The changes that `message` makes to what is known of its source.
 *
 * Source: pkg/kubelet/config/config.go podStorage.Merge, merge.
 */
export function classify(state: SourceState, source: PodSource, message: SourceMessage, nowMs: number): Classified {
  if (message.op === "REMOVE") return remove(state, message.pods);
  const { unique, duplicates } = withoutDuplicates(message.pods);
  const pods = new Map(message.op === "SET" ? [] : state.pods);
  const changes: PodChange[] = [];
  for (const sent of unique) {
    const known = state.pods.get(sent.metadata.uid);
    const isAsBefore = known !== undefined && madeOf.get(known) === sent;
    const { pod, op }: Merged = isAsBefore ? { pod: known } : merge(known, annotated(sent, { [CONFIG_ANNOTATIONS.source]: source }), nowMs);
    madeOf.set(pod, sent);
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
  /** Absent: nothing that counts has changed. */
  readonly op?: ConfigOp;
}

/**
 * What is stored from now on, and what that is to the pod that was stored.
 *
 * Source: config.go checkAndUpdatePod. Differs from upstream: all of the new metadata but the identity is taken over, not only
 * the fields that are compared; a resourceVersion that belongs to another spec helps nobody.
 */
function merge(known: NodePod | undefined, sent: NodePod, nowMs: number): Merged {
  if (known === undefined) return { pod: annotated(sent, { [CONFIG_ANNOTATIONS.seen]: new Date(nowMs).toISOString() }), op: "ADD" };
  if (!differ(known, sent)) {
    if (jsonEqual(known.status, sent.status)) return { pod: known };
    const { status: _old, ...rest } = known;
    // The spec that says the same is taken as well: a source that sends the pod once more sends that object, which is equal at a glance.
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
    !jsonEqual(foreignAnnotations(known), foreignAnnotations(sent)) ||
    !jsonEqual(known.spec, sent.spec)
  );
}

function foreignAnnotations({ metadata: { annotations = {} } }: NodePod): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => !LOCAL_ANNOTATIONS.includes(key)));
}

function annotated(pod: NodePod, annotations: Readonly<Record<string, string>>): NodePod {
  return { ...pod, metadata: { ...pod.metadata, annotations: { ...pod.metadata.annotations, ...annotations } } };
}
