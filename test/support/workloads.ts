/** Workloads as clients send them to the API server, with defaults, so that a test states only what matters to it. */
import type { Labels, OwnerReference } from "../../shared/kube/objects/wire.ts";
import type { GivenObject, Json } from "./scripted-api.ts";

export interface ReplicaOptions {
  readonly name?: string;
  readonly replicas?: number;
  readonly minReadySeconds?: number;
  readonly generation?: number;
  /** Has a deletionTimestamp and a finalizer that holds it. */
  readonly deleting?: boolean;
  readonly ownerReferences?: readonly OwnerReference[];
  readonly status?: Json;
}

/** A ReplicaSet with the selector `app=web`. */
export function replicaSet({
  name = "web",
  replicas = 1,
  minReadySeconds,
  generation = 1,
  deleting = false,
  ownerReferences,
  status,
}: ReplicaOptions = {}): GivenObject {
  return {
    metadata: {
      name,
      generation,
      ...(ownerReferences && { ownerReferences }),
    },
    spec: {
      replicas,
      ...(minReadySeconds !== undefined && { minReadySeconds }),
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "c", image: "i" }] } },
    },
    ...(status && { status }),
    deleting,
  };
}

export interface PodOptions {
  readonly name: string;
  readonly labels?: Labels;
  /** The object to which the controller reference points. */
  readonly owner?: { readonly kind?: string; readonly name?: string; readonly uid: string };
  readonly phase?: string;
  readonly readySince?: string;
  /** Empty: not scheduled yet. */
  readonly nodeName?: string;
  /** Has a deletionTimestamp and a finalizer that holds it. */
  readonly deleting?: boolean;
}

/** A running, ready pod with `app=web`, an orphan unless it has an owner. */
export function pod({
  name,
  labels = { app: "web" },
  owner,
  phase = "Running",
  readySince,
  nodeName = "n1",
  deleting = false,
}: PodOptions): GivenObject {
  const { kind = "ReplicaSet", name: ownerName = "web" } = owner ?? {};
  return {
    metadata: {
      name,
      labels,
      ...(owner && {
        ownerReferences: [{ apiVersion: "apps/v1", kind, name: ownerName, uid: owner.uid, controller: true, blockOwnerDeletion: true }],
      }),
    },
    spec: { ...(nodeName !== "" && { nodeName }), containers: [{ name: "c", image: "i" }] },
    deleting,
    status: {
      phase,
      conditions: [
        {
          type: "Ready",
          status: phase === "Running" ? "True" : "False",
          ...(readySince !== undefined && { lastTransitionTime: readySince }),
        },
      ],
    },
  };
}
