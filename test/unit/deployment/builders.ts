/**
 * Cached objects with defaults and a fixed time. Every object is frozen, so a decision that changes its input throws.
 */
import type {
  CachedDeployment,
  CachedMeta,
  CachedPod,
  CachedReplicaSet,
  CachedTemplate,
  DeploymentStatus,
  ReplicaSetStatus,
} from "../../../shared/kube/objects/cached.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { deepFreeze } from "../../../shared/base/freeze.ts";
import { OWN_RELEASE } from "../../../shared/kube/releases.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import type { Condition, Labels, OwnerReference } from "../../../shared/kube/objects/wire.ts";
import { DESIRED_REPLICAS, MAX_REPLICAS } from "../../../shared/controllers/deployment/annotations.ts";
import { REVISION } from "../../../shared/controllers/deployment/revision.ts";
import type { CopiedAnnotations, Owner } from "../../../shared/controllers/kit/writes.ts";

export const NOW = "2026-03-01T10:00:00Z";
export const NOW_MS = Date.parse(NOW);
export const EARLIER = "2026-03-01T09:00:00Z";
export const D_UID = "uid-web";
/** The template hash of every Deployment in these tests, before encoding. */
export const HASH_STATE = 394_966_528;
export const OWNER: Owner = { resource: "deployments", namespace: "shop", name: "web", uid: D_UID };

/** A template whose digest equals its name: equal names, equal templates. */
function template(name: string, labels: Labels = { app: "web" }): CachedTemplate {
  return { labels, digest: `k1.f1.${name}` };
}

const digester = createDigester("a key of the builders");

/** Returns annotations as they are cached: in plain text, or as digests. */
function cachedAnnotations(annotations: Labels): Pick<CachedMeta, "annotations" | "annotationDigests"> {
  const { metadata } = strip(
    "replicasets",
    { metadata: { namespace: "n", name: "n", uid: "u", resourceVersion: "1", annotations } },
    digester,
  );
  const { annotations: clear, annotationDigests } = metadata;
  return { ...(clear && { annotations: clear }), ...(annotationDigests && { annotationDigests }) };
}

/** Returns the copied annotations of a write; `seen` has all annotations of the Deployment if there are more. */
export function copiedOf(annotations: Labels, seen: Labels = annotations): CopiedAnnotations {
  return { keys: Object.keys(annotations), digests: cachedAnnotations(seen).annotationDigests ?? {} };
}

export interface DeploymentOptions {
  readonly name?: string;
  readonly uid?: string;
  readonly replicas?: number;
  readonly strategy?: string;
  readonly surge?: number | string;
  readonly unavailable?: number | string;
  readonly template?: string;
  readonly revision?: string;
  readonly annotations?: Labels;
  readonly labels?: Labels;
  readonly selector?: CachedDeployment["spec"]["selector"] | null;
  readonly generation?: number;
  readonly resourceVersion?: string;
  readonly deletionTimestamp?: string;
  readonly paused?: boolean;
  readonly deadline?: number;
  readonly historyLimit?: number;
  readonly minReadySeconds?: number;
  readonly status?: DeploymentStatus;
}

/** The Deployment `web` in `shop`: RollingUpdate, surge 0, unavailable 0, no deadline, template "v1". */
export function deployment(options: DeploymentOptions = {}): CachedDeployment {
  const { strategy = "RollingUpdate", revision, selector, deadline, historyLimit, minReadySeconds, paused } = options;
  const annotations = { ...options.annotations, ...(revision === undefined ? {} : { [REVISION]: revision }) };
  return deepFreeze({
    metadata: {
      namespace: "shop",
      name: options.name ?? "web",
      uid: options.uid ?? D_UID,
      resourceVersion: options.resourceVersion ?? "100",
      generation: options.generation ?? 1,
      creationTimestamp: EARLIER,
      ...cachedAnnotations(annotations),
      ...(options.labels === undefined ? {} : { labels: options.labels }),
      ...(options.deletionTimestamp === undefined ? {} : { deletionTimestamp: options.deletionTimestamp }),
    },
    spec: {
      replicas: options.replicas ?? 1,
      ...(selector === null ? {} : { selector: selector ?? { matchLabels: { app: "web" } } }),
      template: { ...template(options.template ?? "v1"), hashStates: { [OWN_RELEASE.name]: HASH_STATE } },
      strategy:
        strategy === "RollingUpdate"
          ? { type: strategy, rollingUpdate: { maxSurge: options.surge ?? 0, maxUnavailable: options.unavailable ?? 0 } }
          : { type: strategy },
      ...(deadline === undefined ? {} : { progressDeadlineSeconds: deadline }),
      ...(historyLimit === undefined ? {} : { revisionHistoryLimit: historyLimit }),
      ...(minReadySeconds === undefined ? {} : { minReadySeconds }),
      ...(paused === undefined ? {} : { paused }),
    },
    status: options.status ?? {},
  });
}

export interface ReplicaSetOptions {
  readonly uid?: string;
  readonly size?: number;
  readonly available?: number;
  readonly template?: string;
  /** Age in minutes after EARLIER. */
  readonly age?: number;
  readonly revision?: string;
  /** The value of the annotations desired-replicas and max-replicas. */
  readonly desired?: number | string;
  readonly max?: number | string;
  readonly annotations?: Labels;
  readonly labels?: Labels;
  readonly owner?: OwnerReference | null;
  readonly status?: ReplicaSetStatus;
  readonly generation?: number;
  readonly resourceVersion?: string;
  readonly deletionTimestamp?: string;
  readonly minReadySeconds?: number;
}

export function ownedBy(name = "web", uid = D_UID, more: Partial<OwnerReference> = {}): OwnerReference {
  return { apiVersion: "apps/v1", kind: "Deployment", name, uid, controller: true, blockOwnerDeletion: true, ...more };
}

/** A ReplicaSet that `web` owns, with template "v1" and uid `uid-<name>`, created in the order of `age`. */
export function replicaSet(name: string, options: ReplicaSetOptions = {}): CachedReplicaSet {
  const annotations = {
    ...options.annotations,
    ...(options.revision === undefined ? {} : { [REVISION]: options.revision }),
    ...(options.desired === undefined ? {} : { [DESIRED_REPLICAS]: String(options.desired) }),
    ...(options.max === undefined ? {} : { [MAX_REPLICAS]: String(options.max) }),
  };
  const owner = options.owner === undefined ? ownedBy() : options.owner;
  return deepFreeze({
    metadata: {
      namespace: "shop",
      name,
      uid: options.uid ?? `uid-${name}`,
      resourceVersion: options.resourceVersion ?? "50",
      generation: options.generation ?? 1,
      creationTimestamp: new Date(Date.parse(EARLIER) + (options.age ?? 0) * 60_000).toISOString().replace(".000", ""),
      labels: options.labels ?? { app: "web" },
      ...cachedAnnotations(annotations),
      ...(owner === null ? {} : { ownerReferences: [owner] }),
      ...(options.deletionTimestamp === undefined ? {} : { deletionTimestamp: options.deletionTimestamp }),
    },
    spec: {
      replicas: options.size ?? 0,
      ...(options.minReadySeconds === undefined ? {} : { minReadySeconds: options.minReadySeconds }),
      selector: { matchLabels: { app: "web" } },
      template: template(options.template ?? "v1"),
    },
    status: options.status ?? {
      replicas: options.available ?? 0,
      availableReplicas: options.available ?? 0,
      observedGeneration: options.generation ?? 1,
    },
  });
}

export function pod(name: string, options: Partial<CachedPod> & { readonly rs?: string } = {}): CachedPod {
  const { rs, ...more } = options;
  return deepFreeze({
    namespace: "shop",
    name,
    uid: `uid-${name}`,
    resourceVersion: "10",
    labels: { app: "web" },
    ...(rs === undefined ? {} : { owner: { kind: "ReplicaSet", name: rs, uid: `uid-${rs}` } }),
    ...more,
  });
}

export function condition(
  type: string,
  status: Condition["status"],
  reason: string,
  times: { readonly updated?: string; readonly since?: string; readonly message?: string } = {},
): Condition {
  return {
    type,
    status,
    reason,
    message: times.message ?? "",
    lastUpdateTime: times.updated ?? NOW,
    lastTransitionTime: times.since ?? times.updated ?? NOW,
  };
}
