/**
 * The stripped shapes that are queued, stored in Redis and captured, as `strip()` creates them (design decision 5). They are separate
 * types, so that the compiler keeps templates, env values and other secrets out of them.
 */
import type { CachedResource, View } from "./resources.ts";
import type { Condition, LabelSelector, Labels, ObjectMeta } from "./wire.ts";

/**
 * A pod's minimal projection (replicaset §2), flat because 150,000 of them are cached:
 *
 *     { namespace: "shop", name: "web-7f8fb-x2x4z", uid: "…", resourceVersion: "812", labels: { app: "web" },
 *       owner: { kind: "ReplicaSet", name: "web-7f8fb", uid: "…" }, creationTimestamp: "2026-03-01T10:00:00Z",
 *       nodeName: "n1", phase: "Running", ready: { status: "True", since: "2026-03-01T10:00:02Z" } }
 */
export interface CachedPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels?: Labels;
  /** The annotation `controller.kubernetes.io/pod-deletion-cost` as written, valid or not. */
  readonly deletionCost?: string;
  /** The first ownerReference with `controller: true`; a pod without one is an orphan. */
  readonly owner?: CachedOwner;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly nodeName?: string;
  readonly phase?: string;
  /** The `Ready` condition; `since` is its lastTransitionTime. */
  readonly ready?: { readonly status: string; readonly since?: string };
  /** Highest restartCount over regular containers; absent means 0. */
  readonly restarts?: number;
  /** Highest restartCount over init containers with restartPolicy Always; absent means 0. */
  readonly sidecarRestarts?: number;
}

export interface CachedOwner {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
}

/** Replaces a pod template: its labels and a keyed digest of its normal form (deployment §6.1). */
export interface CachedTemplate {
  readonly labels?: Labels;
  /** `<keyId>.<form>.<HMAC-SHA-256>`. Digests of different `<keyId>.<form>` prefix are never compared. */
  readonly digest: string;
  /** Deployments only: FNV-1a states of upstream's hash text before the collision count, by release (deployment §7.1 step 3). */
  readonly hashStates?: Readonly<Record<string, number>>;
}

/**
 * Metadata without managedFields and the last-applied annotation. `annotations` holds only those cached in clear text:
 *
 *     { namespace: "shop", name: "web", …, annotations: { "deployment.kubernetes.io/revision": "3" },
 *       annotationDigests: { "kubernetes.io/change-cause": "773a4fa2.a1.5d41402abc4b2a76b9719d911017c592" } }
 */
export type CachedMeta = ObjectMeta & {
  readonly namespace: string;
  /** Keys of all other annotations with keyed digests of their values (`Digester.annotation`). No key is in both maps. */
  readonly annotationDigests?: Labels;
};

export interface ReplicaSetStatus {
  readonly replicas?: number;
  readonly fullyLabeledReplicas?: number;
  readonly readyReplicas?: number;
  readonly availableReplicas?: number;
  /** Absent on a ReplicationController. An absent value differs from 0. */
  readonly terminatingReplicas?: number;
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
}

export interface CachedReplicaSet {
  readonly metadata: CachedMeta;
  readonly spec: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly selector?: LabelSelector;
    readonly template?: CachedTemplate;
  };
  readonly status: ReplicaSetStatus;
}

export interface CachedReplicationController {
  readonly metadata: CachedMeta;
  readonly spec: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly selector?: Labels;
    readonly template?: CachedTemplate;
  };
  readonly status: ReplicaSetStatus;
}

export interface DeploymentStatus {
  readonly observedGeneration?: number;
  readonly replicas?: number;
  readonly updatedReplicas?: number;
  readonly readyReplicas?: number;
  readonly availableReplicas?: number;
  readonly unavailableReplicas?: number;
  readonly terminatingReplicas?: number;
  readonly collisionCount?: number;
  readonly conditions?: readonly Condition[];
}

export interface CachedDeployment {
  readonly metadata: CachedMeta;
  readonly spec: {
    readonly replicas?: number;
    readonly minReadySeconds?: number;
    readonly selector?: LabelSelector;
    readonly template: CachedTemplate;
    readonly strategy?: {
      readonly type?: string;
      readonly rollingUpdate?: { readonly maxSurge?: number | string; readonly maxUnavailable?: number | string };
    };
    readonly revisionHistoryLimit?: number;
    readonly progressDeadlineSeconds?: number;
    readonly paused?: boolean;
  };
  readonly status: DeploymentStatus;
}

/** An object of a user controller's view: its metadata, and what the view's projection keeps of the rest. */
export interface CachedObject {
  readonly metadata: CachedMeta;
  readonly spec?: unknown;
  readonly status?: unknown;
}

/** The cached shape of each resource. */
export interface CachedObjects {
  readonly deployments: CachedDeployment;
  readonly replicasets: CachedReplicaSet;
  readonly replicationcontrollers: CachedReplicationController;
  readonly pods: CachedPod;
}

export type Cached<R extends View = CachedResource> = R extends CachedResource ? CachedObjects[R] : CachedObject;
