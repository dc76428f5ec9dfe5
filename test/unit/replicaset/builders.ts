/** Cached objects with defaults. Every object is frozen, so a decision that changes its input throws. */
import type { CachedPod, CachedReplicaSet, ReplicaSetStatus } from "../../../shared/kube/objects/cached.ts";
import { deepFreeze } from "../../../shared/base/freeze.ts";
import type { Labels, OwnerReference } from "../../../shared/kube/objects/wire.ts";
import type { Owner } from "../../../shared/controllers/kit/writes.ts";

export const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
export const OWNER: Owner = { resource: "replicasets", namespace: "default", name: "rs", uid: "rs-1" };

/** Returns the RFC 3339 time this long before NOW_MS. */
export function ago(seconds: number): string {
  return new Date(NOW_MS - seconds * 1000).toISOString().replace(".000Z", "Z");
}

export interface RsOptions {
  readonly name?: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly replicas?: number;
  readonly minReadySeconds?: number;
  readonly selector?: CachedReplicaSet["spec"]["selector"];
  readonly templateLabels?: Labels;
  readonly generation?: number;
  readonly deletionTimestamp?: string;
  readonly controller?: string;
  readonly status?: ReplicaSetStatus;
}

export function rs({
  name = "rs",
  namespace = "default",
  uid = "rs-1",
  replicas = 1,
  minReadySeconds,
  selector = { matchLabels: { foo: "bar" } },
  templateLabels = { foo: "bar" },
  generation = 1,
  deletionTimestamp,
  controller,
  status = {},
}: RsOptions = {}): CachedReplicaSet {
  const ownerReferences: OwnerReference[] =
    controller === undefined ? [] : [{ apiVersion: "apps/v1", kind: "Deployment", name: "d", uid: controller, controller: true }];
  return deepFreeze({
    metadata: {
      name,
      namespace,
      uid,
      resourceVersion: "10",
      generation,
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(controller !== undefined && { ownerReferences }),
    },
    spec: {
      replicas,
      ...(minReadySeconds !== undefined && { minReadySeconds }),
      selector,
      template: { labels: templateLabels, digest: "k.1.d" },
    },
    status,
  });
}

export interface PodFields extends Partial<Omit<CachedPod, "ready" | "owner">> {
  /** The time since which the pod is ready; `true`: ready without a time; `false`: not ready. */
  readonly ready?: string | boolean;
  readonly owner?: CachedPod["owner"] | null;
}

/** A running pod: ready without a time, on node n1, owned by rs-1. */
export function pod({ ready = true, owner = { kind: "ReplicaSet", name: "rs", uid: "rs-1" }, ...fields }: PodFields = {}): CachedPod {
  return deepFreeze({
    namespace: "default",
    name: "pod",
    uid: "",
    resourceVersion: "1",
    labels: { foo: "bar" },
    phase: "Running",
    nodeName: "n1",
    ...(owner && { owner }),
    ready: { status: ready === false ? "False" : "True", ...(typeof ready === "string" && { since: ready }) },
    ...fields,
  });
}
