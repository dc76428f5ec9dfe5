/**
 * The lines of an unbounded capture: Deployments that roll one after the other, pod by pod (surge 1, unavailable 0),
 * with the writes of upstream's controllers, a scheduler and kubelets. Each pod has four states until it is ready, then
 * its deletion is requested, then it is deleted.
 */
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { RESOURCES } from "../../shared/kube/objects/resources.ts";

export interface LongCaptureOptions {
  readonly deployments: number;
  readonly pods: number;
  readonly stepMs: number;
  /** The fields of a line for an object as the API server sends it; default: the whole object. */
  readonly recorded?: (resource: CachedResource, object: object) => object;
  /** The containers of each pod and template; default: one container. */
  readonly containers?: readonly object[];
}

const NAMESPACE = "shop";
const START_MS = Date.parse("2026-03-01T10:00:00Z");
const CONTAINERS = [{ name: "main", image: "shop:1" }];

/** Yields the lines without newlines. */
export function* longCapture(options: LongCaptureOptions): Generator<string> {
  const { deployments, pods, stepMs, containers = CONTAINERS, recorded = (_resource, object): object => ({ object }) } = options;
  let [version, count] = [100, 0];
  const generations = Array.from({ length: deployments }, () => 1);
  const line = (fields: object): string => JSON.stringify({ t: new Date(START_MS + count++ * stepMs).toISOString(), ...fields });
  const item = (r: CachedResource, object: object): string => line({ r, k: "item", ...recorded(r, object) });
  const event = (r: CachedResource, type: string, object: object): string => line({ r, type, ...recorded(r, object) });
  const time = (): string => new Date(START_MS + count * stepMs).toISOString().replace(/\.\d+/, "");
  const metaOf = (name: string, more: object = {}): object => ({
    ...{ namespace: NAMESPACE, name, uid: `uid-${name}`, resourceVersion: String(version++), creationTimestamp: time(), ...more },
  });
  const owner = (kind: string, name: string): object => ({
    ownerReferences: [{ apiVersion: "apps/v1", kind, name, uid: `uid-${name}`, controller: true, blockOwnerDeletion: true }],
  });
  const labelsOf = (i: number): object => ({ app: `web-${i}` });
  const templateOf = (i: number, revision: number): object => ({
    metadata: { labels: { ...labelsOf(i), "pod-template-hash": `r${revision}` }, annotations: { revision: String(revision) } },
    spec: { containers },
  });
  const deploymentOf = (i: number, status: object): object => {
    const generation = generations[i] ?? 1;
    return {
      kind: RESOURCES.deployments.kind,
      metadata: metaOf(`web-${i}`, { generation, annotations: { "deployment.kubernetes.io/revision": String(generation) } }),
      spec: {
        ...{ replicas: pods, selector: { matchLabels: labelsOf(i) }, template: { ...templateOf(i, generation) } },
        ...{
          strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
          revisionHistoryLimit: 1,
          progressDeadlineSeconds: 600,
        },
      },
      status: { observedGeneration: generation, ...status },
    };
  };
  const replicaSetOf = (
    i: number,
    revision: number,
    { replicas, ready }: { readonly replicas: number; readonly ready: number },
  ): object => ({
    kind: RESOURCES.replicasets.kind,
    metadata: metaOf(`web-${i}-r${revision}`, {
      ...{ generation: 1, labels: { ...labelsOf(i), "pod-template-hash": `r${revision}` }, ...owner("Deployment", `web-${i}`) },
      annotations: {
        "deployment.kubernetes.io/revision": String(revision),
        "deployment.kubernetes.io/desired-replicas": String(pods),
        "deployment.kubernetes.io/max-replicas": String(pods + 1),
      },
    }),
    spec: {
      replicas,
      selector: { matchLabels: { ...labelsOf(i), "pod-template-hash": `r${revision}` } },
      template: templateOf(i, revision),
    },
    status: { replicas, readyReplicas: ready, availableReplicas: ready, fullyLabeledReplicas: replicas, observedGeneration: 1 },
  });
  const podOf = (i: number, revision: number, n: number, { phase = "Running", ready = true, more = {} }: PodState = {}): object => ({
    kind: RESOURCES.pods.kind,
    metadata: metaOf(`web-${i}-r${revision}-${n}`, {
      ...{ labels: { ...labelsOf(i), "pod-template-hash": `r${revision}` }, ...owner("ReplicaSet", `web-${i}-r${revision}`), ...more },
    }),
    spec: { containers, ...(phase === "Running" && { nodeName: `node-${n % 7}` }) },
    status: { phase, conditions: [{ type: "Ready", status: ready ? "True" : "False", lastTransitionTime: time() }] },
  });

  for (let i = 0; i < deployments; i++)
    yield item("deployments", deploymentOf(i, { replicas: pods, readyReplicas: pods, availableReplicas: pods, updatedReplicas: pods }));
  yield line({ r: "deployments", k: "listend", rv: String(version++) });
  for (let i = 0; i < deployments; i++) yield item("replicasets", replicaSetOf(i, 1, { replicas: pods, ready: pods }));
  yield line({ r: "replicasets", k: "listend", rv: String(version++) });
  for (let i = 0; i < deployments; i++) for (let n = 0; n < pods; n++) yield item("pods", podOf(i, 1, n));
  yield line({ r: "pods", k: "listend", rv: String(version++) });
  yield line({ r: "replicationcontrollers", k: "listend", rv: String(version++) });

  for (let i = 0; ; i = (i + 1) % deployments) {
    const old = generations[i] ?? 1;
    const now = old + 1;
    generations[i] = now;
    yield event("deployments", "MODIFIED", deploymentOf(i, { replicas: pods, readyReplicas: pods, availableReplicas: pods }));
    yield event("replicasets", "ADDED", replicaSetOf(i, now, { replicas: 1, ready: 0 }));
    for (let n = 0; n < pods; n++) {
      if (n > 0) yield event("replicasets", "MODIFIED", replicaSetOf(i, now, { replicas: n + 1, ready: n }));
      yield event("pods", "ADDED", podOf(i, now, n, { phase: "Pending", ready: false }));
      yield event("pods", "MODIFIED", podOf(i, now, n, { phase: "Pending", ready: false, more: { annotations: { scheduled: "yes" } } }));
      yield event("pods", "MODIFIED", podOf(i, now, n, { ready: false }));
      yield event("pods", "MODIFIED", podOf(i, now, n));
      yield event("replicasets", "MODIFIED", replicaSetOf(i, now, { replicas: n + 1, ready: n + 1 }));
      yield event(
        "deployments",
        "MODIFIED",
        deploymentOf(i, { replicas: pods + 1, readyReplicas: pods + 1, availableReplicas: pods + 1, updatedReplicas: n + 1 }),
      );
      yield event("replicasets", "MODIFIED", replicaSetOf(i, old, { replicas: pods - n - 1, ready: pods - n - 1 }));
      yield event("pods", "MODIFIED", podOf(i, old, n, { more: { deletionTimestamp: time(), deletionGracePeriodSeconds: 30 } }));
      yield event(
        "pods",
        "DELETED",
        podOf(i, old, n, { ready: false, more: { deletionTimestamp: time(), deletionGracePeriodSeconds: 0 } }),
      );
      yield event(
        "deployments",
        "MODIFIED",
        deploymentOf(i, { replicas: pods, readyReplicas: pods, availableReplicas: pods, updatedReplicas: n + 1 }),
      );
    }
    if (old > 1) yield event("replicasets", "DELETED", replicaSetOf(i, old - 1, { replicas: 0, ready: 0 }));
  }
}

interface PodState {
  readonly phase?: string;
  readonly ready?: boolean;
  readonly more?: object;
}
