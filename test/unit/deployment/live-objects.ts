/** Deployments, ReplicaSets and pods as clients of the API server send them, for SyncHarness. */
import type { Labels } from "../../../shared/kube/objects/wire.ts";
import type { Live } from "../../harness/sync/sync.ts";
import type { Json } from "../../support/scripted-api.ts";

export interface LiveDeploymentOptions {
  readonly image?: string;
  readonly strategy?: string;
  readonly surge?: number | string;
  readonly unavailable?: number | string;
  readonly annotations?: Labels;
  readonly deletionTimestamp?: string;
  readonly generation?: number;
  readonly status?: Json;
  readonly spec?: Json;
}

export function podTemplate(image: string, labels: Labels = { app: "web" }): Json {
  return { metadata: { labels }, spec: { containers: [{ name: "app", image }] } };
}

/**
 * Upstream's value for "no deadline"; an absent deadline means 600 s. Source: pkg/controller/deployment/util/deployment_util.go,
 * HasProgressDeadline.
 */
const NO_DEADLINE = 2 ** 31 - 1;

/** The Deployment `web` with R replicas: RollingUpdate with surge and unavailable 1, no deadline. */
export function liveDeployment(
  replicas: number,
  {
    image = "v1",
    strategy = "RollingUpdate",
    surge = 1,
    unavailable = 1,
    annotations,
    deletionTimestamp,
    generation = 1,
    status,
    spec,
  }: LiveDeploymentOptions = {},
  name = "web",
): Live {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      resourceVersion: "100",
      generation,
      creationTimestamp: "2026-03-01T09:00:00Z",
      labels: { app: "web" },
      ...(annotations === undefined ? {} : { annotations }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec: {
      replicas,
      selector: { matchLabels: { app: "web" } },
      template: podTemplate(image),
      progressDeadlineSeconds: NO_DEADLINE,
      strategy:
        strategy === "RollingUpdate"
          ? { type: strategy, rollingUpdate: { maxSurge: surge, maxUnavailable: unavailable } }
          : { type: strategy },
      ...spec,
    },
    status: status ?? {},
  };
}

export interface LiveReplicaSetOptions {
  /** Number of existing pods; absent: the desired number. */
  readonly pods?: number;
  readonly available?: number;
  readonly revision?: string;
  readonly sizedFor?: readonly [desired: number, max: number];
  readonly owner?: string | null;
  readonly age?: number;
  readonly labels?: Labels;
  readonly status?: Json;
  readonly minReadySeconds?: number;
}

export function liveReplicaSet(
  name: string,
  image: string,
  size: number,
  {
    pods = size,
    available = pods,
    revision,
    sizedFor,
    owner = "web",
    age = 0,
    labels = { app: "web" },
    status,
    minReadySeconds,
  }: LiveReplicaSetOptions = {},
): Live {
  const annotations = {
    ...(revision === undefined ? {} : { "deployment.kubernetes.io/revision": revision }),
    ...(sizedFor === undefined
      ? {}
      : { "deployment.kubernetes.io/desired-replicas": String(sizedFor[0]), "deployment.kubernetes.io/max-replicas": String(sizedFor[1]) }),
  };
  const reference = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    name: owner ?? "",
    uid: `uid-${owner}`,
    controller: true,
    blockOwnerDeletion: true,
  };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: {
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      resourceVersion: "50",
      generation: 1,
      creationTimestamp: new Date(Date.parse("2026-03-01T09:00:00Z") + age * 60_000).toISOString().replace(".000", ""),
      labels: { ...labels, "pod-template-hash": name },
      annotations,
      ...(owner === null ? {} : { ownerReferences: [reference] }),
    },
    spec: {
      replicas: size,
      selector: { matchLabels: { app: "web" } },
      template: podTemplate(image, { app: "web", "pod-template-hash": name }),
      ...(minReadySeconds === undefined ? {} : { minReadySeconds }),
    },
    status: status ?? {
      replicas: pods,
      readyReplicas: available,
      availableReplicas: available,
      terminatingReplicas: 0,
      observedGeneration: 1,
    },
  };
}

export function livePod(name: string, rs: string, phase = "Running"): Live {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace: "shop",
      name,
      uid: `uid-${name}`,
      resourceVersion: "10",
      labels: { app: "web" },
      ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: rs, uid: `uid-${rs}`, controller: true }],
    },
    spec: { nodeName: "n1", containers: [{ name: "app", image: "v1" }] },
    status: { phase },
  };
}
