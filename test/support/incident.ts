/** A Deployment of three pods whose second revision has one new pod, as whole objects, for tests of findings. */
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import type { CachedResource, EvidenceResource } from "../../shared/kube/objects/resources.ts";
import { RESOURCES } from "../../shared/kube/objects/resources.ts";
import { verdictText } from "../../cli/explain/verdict-text.ts";
import { StateCensus } from "../../shared/replay/incident/cluster-state.ts";
import type { ClusterState } from "../../shared/replay/incident/cluster-state.ts";
import { verdictOf } from "../../shared/replay/verdict/verdict.ts";
import type { Verdict } from "../../shared/replay/verdict/verdict.ts";
import { isEvidenceResource } from "../../shared/replay/capture-format/recorded-resources.ts";

export type Fields = Readonly<Record<string, unknown>>;
/** An object, and when it was recorded, in seconds after the moment of the verdict (default 0). */
export type Placed = readonly [resource: CachedResource | EvidenceResource, fields: Fields, seconds?: number];

const NOW = "2026-03-01T10:10:00Z";
const digester = createDigester("a key of this test alone");

/** `at(-90)`: a minute and a half before the moment of the verdict. */
export function at(seconds: number): string {
  return new Date(Date.parse(NOW) + seconds * 1_000).toISOString().replace(".000Z", "Z");
}

const owned = (kind: string, name: string): Fields => ({
  ownerReferences: [{ apiVersion: "apps/v1", kind, name, uid: `uid-${name}`, controller: true }],
});
const meta = (name: string, more: Fields = {}): Fields => ({
  ...{ namespace: "shop", name, uid: `uid-${name}`, resourceVersion: "7", creationTimestamp: at(-300) },
  ...more,
});
const podSpec = (image: string, container: Fields = {}, more: Fields = {}): Fields => ({
  containers: [{ name: "web", image, resources: { requests: { cpu: "100m" }, limits: { memory: "64Mi" } }, ...container }],
  ...more,
});
const template = (spec: Fields): Fields => ({ metadata: { labels: { app: "web" } }, spec });
const selector = { matchLabels: { app: "web" } };

export function deployment({ spec = {}, status = {}, metadata = {} }: Readonly<Record<string, Fields>> = {}): Placed {
  const revision = { annotations: { "deployment.kubernetes.io/revision": "2" }, generation: 2 };
  const manager = {
    manager: "kubectl-set",
    operation: "Update",
    time: at(-300),
    fieldsV1: { "f:spec": { "f:template": { "f:spec": { "f:containers": { 'k:{"name":"web"}': { "f:image": {} } } } } } },
  };
  const progressing = {
    type: "Progressing",
    status: "True",
    reason: "ReplicaSetUpdated",
    lastUpdateTime: at(-290),
    lastTransitionTime: at(-900),
  };
  return [
    "deployments",
    {
      metadata: meta("web", { creationTimestamp: at(-3_000), ...revision, managedFields: [manager], ...metadata }),
      spec: {
        replicas: 3,
        selector,
        strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "25%", maxUnavailable: "25%" } },
        template: template(podSpec("app:v2")),
        ...spec,
      },
      status: {
        observedGeneration: 2,
        replicas: 4,
        updatedReplicas: 1,
        readyReplicas: 3,
        availableReplicas: 3,
        conditions: [progressing],
        ...status,
      },
    },
  ];
}

export function replicaSet(name: "web-a" | "web-b", { spec = {}, status = {} }: Readonly<Record<string, Fields>> = {}): Placed {
  const isNew = name === "web-b";
  const replicas = isNew ? 1 : 3;
  return [
    "replicasets",
    {
      metadata: meta(name, {
        ...owned("Deployment", "web"),
        ...{ annotations: { "deployment.kubernetes.io/revision": isNew ? "2" : "1" }, generation: 1 },
        ...(!isNew && { creationTimestamp: at(-3_000) }),
      }),
      spec: { replicas, selector, template: template(podSpec(isNew ? "app:v2" : "app:v1")), ...spec },
      status: { observedGeneration: 1, replicas, readyReplicas: isNew ? 0 : 3, availableReplicas: isNew ? 0 : 3, ...status },
    },
  ];
}

interface PodParts {
  readonly metadata?: Fields;
  readonly spec?: Fields;
  readonly container?: Fields;
  readonly status?: Fields;
  readonly state?: Fields;
  /** Additional fields of the container's status. */
  readonly web?: Fields;
}

/** The pod of the second revision: scheduled, not ready. */
export function pod(
  { metadata = {}, spec = {}, container = {}, status = {}, state = {}, web = {} }: PodParts = {},
  name = "web-b-1",
): Placed {
  const owner = name.slice(0, 5);
  const conditions = [
    { type: "PodScheduled", status: "True", lastTransitionTime: at(-299) },
    {
      type: "Ready",
      status: "False",
      reason: "ContainersNotReady",
      message: "containers with unready status: [web]",
      lastTransitionTime: at(-299),
    },
  ];
  return [
    "pods",
    {
      metadata: meta(name, { labels: { app: "web" }, ...owned("ReplicaSet", owner), ...metadata }),
      spec: podSpec("app:v2", container, { nodeName: "n1", ...spec }),
      status: {
        phase: "Pending",
        conditions,
        containerStatuses: [{ name: "web", ready: false, restartCount: 0, state, ...web }],
        ...status,
      },
    },
  ];
}

/** Pods of the first revision, ready after two seconds. */
export const oldPods: readonly Placed[] = [1, 2, 3].map((n) =>
  pod(
    {
      metadata: { creationTimestamp: at(-3_000) },
      status: { phase: "Running", conditions: [{ type: "Ready", status: "True", lastTransitionTime: at(-2_998) }] },
      web: { ready: true, started: true },
      state: { running: { startedAt: at(-2_999) } },
    },
    `web-a-${n}`,
  ),
);

export function event(
  reason: string,
  message: string,
  { of = "web-b-1", kind = "Pod", seconds = -60, count = 5, type = "Warning" } = {},
): Placed {
  const name = `${of}.${reason}.${count}.${seconds}`;
  const involvedObject = { kind, name: of, namespace: "shop", uid: `uid-${of}` };
  return [
    "events",
    {
      metadata: meta(name),
      involvedObject,
      reason,
      message,
      type,
      count,
      firstTimestamp: at(seconds - 60),
      lastTimestamp: at(seconds),
      source: { component: "kubelet" },
    },
  ];
}

function clusterOf(placed: readonly Placed[]): ClusterState {
  const census = new StateCensus(digester);
  const nowMs = Date.parse(NOW);
  for (const [resource, fields, seconds = 0] of placed) {
    const atMs = nowMs + seconds * 1_000;
    const object = { kind: RESOURCES[resource].kind, ...fields };
    if (isEvidenceResource(resource)) census.seeEvidence({ atMs, resource, kind: "event", type: "ADDED", object });
    else census.see({ atMs, resource, kind: "item", object });
  }
  return census.state({ nowMs });
}

/** Returns the verdict on the Deployment. `changed` replaces and adds objects; it may contain several versions of an object, in order. */
export function verdictOn(...changed: readonly Placed[]): Verdict {
  const base: readonly Placed[] = [deployment(), replicaSet("web-a"), replicaSet("web-b"), ...oldPods];
  const keyOf = ([resource, fields]: Placed): string => `${resource} ${(fields["metadata"] as { readonly name: string }).name}`;
  const replaced = new Set(changed.map(keyOf));
  const all = [...base.filter((each) => !replaced.has(keyOf(each))), ...changed];
  const verdict = verdictOf(clusterOf(all), { resource: "deployments", namespace: "shop", name: "web" });
  if (verdict === undefined) throw new Error("there is no Deployment web");
  return verdict;
}

/** The text of the verdict as one line. */
export function textOf(...changed: readonly Placed[]): string {
  return verdictText(verdictOn(...changed)).replaceAll(/\s+/g, " ");
}

/** Replaces the ReplicaSet of the first revision by an object without owner. */
export function withoutPrevious(resource: Placed[0]): Placed {
  return [resource, { metadata: { name: "web-a", uid: "uid-other", resourceVersion: "1" } }];
}

export function waiting(reason: string, message?: string): Fields {
  return { waiting: { reason, ...(message !== undefined && { message }) } };
}

export function backOff(message?: string): Placed {
  return pod({ state: waiting("ImagePullBackOff", message) });
}

/** The same object, recorded at another time. */
export function recordedAt(seconds: number, [resource, fields]: Placed): Placed {
  return [resource, fields, seconds];
}
