/** Objects as findings read them: from a capture of any format, or from a live API server. */
import type { CachedResource, Labels } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { CapturedObject } from "../capture-format/capture.ts";
import { ownerUidOf } from "../capture-format/captured-object.ts";
import { isObject, listIn, numberIn, objectIn, textIn, timeIn } from "../evidence/fields.ts";
import type { Json } from "../evidence/fields.ts";
import { ownerEvidence } from "../evidence/owner-evidence.ts";
import type { OwnerEvidence } from "../evidence/owner-evidence.ts";
import { podEvidence } from "../evidence/pod-evidence.ts";
import type { PodEvidence } from "../evidence/pod-evidence.ts";

/** An object as recorded. */
export interface Recording {
  readonly object: CapturedObject;
  readonly evidence?: CapturedObject | undefined;
}

interface Identity {
  readonly resource: CachedResource;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Labels;
  readonly ownerUid?: string | undefined;
  readonly createdMs?: number | undefined;
  /** The deletionTimestamp, which is the end of the grace period. */
  readonly deletionMs?: number | undefined;
}

export interface SeenOwner extends Identity, OwnerEvidence {
  readonly generation?: number | undefined;
  /** The annotation `deployment.kubernetes.io/revision`. */
  readonly revision?: number | undefined;
  readonly replicas: number;
  readonly paused: boolean;
  readonly minReadySeconds: number;
  readonly progressDeadlineSeconds: number;
  readonly strategy: { readonly type: string; readonly maxSurge: number | string; readonly maxUnavailable: number | string };
  readonly matchLabels: Readonly<Record<string, string>>;
  readonly finalizers: readonly string[];
  readonly status: {
    readonly observedGeneration?: number | undefined;
    readonly replicas: number;
    readonly updated: number;
    readonly ready: number;
    readonly available: number;
    readonly collisions: number;
  };
}

export interface SeenPod extends Identity, Omit<PodEvidence, "metadata"> {
  readonly phase: string;
  readonly isReady: boolean;
  /** Time at which the Ready condition became true. */
  readonly readySinceMs?: number | undefined;
  readonly graceSeconds?: number | undefined;
  readonly finalizers: readonly string[];
  /** Whether the capture contains the pod's containers, which format 1 does not. */
  readonly isWhole: boolean;
}

/** Returns undefined for an object without name or uid. */
function identityOf(resource: CachedResource, object: CapturedObject): Identity | undefined {
  // A stripped pod is flat.
  const metadata = isObject(object["metadata"]) ? object["metadata"] : object;
  const [name, uid] = [textIn(metadata, "name"), textIn(metadata, "uid")];
  if (name === undefined || uid === undefined) return undefined;
  return {
    ...{ resource, name, uid, namespace: textIn(metadata, "namespace") ?? "" },
    labels: objectIn(metadata, "labels") as Labels, // the shape was checked when the capture was read
    ownerUid: ownerUidOf(object),
    createdMs: timeIn(metadata, "creationTimestamp"),
    deletionMs: timeIn(metadata, "deletionTimestamp"),
  };
}

export function seenPod({ object, evidence }: Recording, digester: Digester): SeenPod | undefined {
  const identity = identityOf("pods", object);
  if (identity === undefined) return undefined;
  const { metadata, spec, status } = podEvidence(evidence ?? object, digester);
  const flatReady = objectIn(object, "ready");
  const ready = status.conditions.find(({ type }) => type === "Ready");
  const nodeName = spec.nodeName ?? textIn(object, "nodeName");
  return {
    ...identity,
    spec: { ...spec, ...(nodeName !== undefined && { nodeName }) },
    status,
    phase: status.phase ?? textIn(object, "phase") ?? "Unknown",
    isReady: (ready?.status ?? textIn(flatReady, "status")) === "True",
    readySinceMs: ready === undefined ? timeIn(flatReady, "since") : timeIn(ready, "lastTransitionTime"),
    graceSeconds: metadata.deletionGracePeriodSeconds,
    finalizers: metadata.finalizers ?? [],
    isWhole: spec.containers.length > 0,
  };
}

const DEADLINE_SECONDS = 600;

export function seenOwner(resource: CachedResource, { object, evidence }: Recording, digester: Digester): SeenOwner | undefined {
  const identity = identityOf(resource, object);
  if (identity === undefined) return undefined;
  const [metadata, spec, status] = [objectIn(object, "metadata"), objectIn(object, "spec"), objectIn(object, "status")];
  const strategy = objectIn(spec, "strategy");
  const rolling = objectIn(strategy, "rollingUpdate");
  const revision = Number(textIn(objectIn(metadata, "annotations"), "deployment.kubernetes.io/revision") ?? Number.NaN);
  const selector = objectIn(spec, "selector");
  return {
    ...identity,
    ...ownerEvidence(evidence ?? object, digester),
    generation: numberIn(metadata, "generation"),
    revision: Number.isNaN(revision) ? undefined : revision,
    replicas: numberIn(spec, "replicas") ?? 1,
    paused: spec["paused"] === true,
    minReadySeconds: numberIn(spec, "minReadySeconds") ?? 0,
    progressDeadlineSeconds: numberIn(spec, "progressDeadlineSeconds") ?? DEADLINE_SECONDS,
    strategy: {
      type: textIn(strategy, "type") ?? "RollingUpdate",
      maxSurge: boundIn(rolling, "maxSurge"),
      maxUnavailable: boundIn(rolling, "maxUnavailable"),
    },
    matchLabels: textsOf(isObject(selector["matchLabels"]) ? selector["matchLabels"] : selector),
    finalizers: Array.isArray(metadata["finalizers"]) ? metadata["finalizers"].filter((each) => typeof each === "string") : [],
    status: {
      observedGeneration: numberIn(status, "observedGeneration"),
      replicas: numberIn(status, "replicas") ?? 0,
      updated: numberIn(status, "updatedReplicas") ?? 0,
      ready: numberIn(status, "readyReplicas") ?? 0,
      available: numberIn(status, "availableReplicas") ?? 0,
      collisions: numberIn(status, "collisionCount") ?? 0,
    },
  };
}

/** Returns upstream's default if the field is absent. */
function boundIn(rolling: Json, field: string): number | string {
  return numberIn(rolling, field) ?? textIn(rolling, field) ?? "25%";
}

function textsOf(object: Json): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(object).filter((each): each is [string, string] => typeof each[1] === "string"));
}

/** Time from creation to Ready, if the pod is or was ready. Accepts stripped and whole objects. */
export function startMsOf(object: CapturedObject): number | undefined {
  const metadata = isObject(object["metadata"]) ? object["metadata"] : object;
  const condition = listIn(objectIn(object, "status"), "conditions").find((each) => textIn(each, "type") === "Ready");
  const flat = objectIn(object, "ready");
  const isReady = textIn(condition ?? flat, "status") === "True";
  const [createdMs, readyMs] = [
    timeIn(metadata, "creationTimestamp"),
    condition === undefined ? timeIn(flat, "since") : timeIn(condition, "lastTransitionTime"),
  ];
  return isReady && createdMs !== undefined && readyMs !== undefined ? readyMs - createdMs : undefined;
}
