/**
 * A namespace's workloads without values that differ between runs (times, uids, resourceVersions, random name parts),
 * to compare the results of our functions and of upstream's controllers for the same commands.
 */
import type { Cluster } from "./e2e.ts";

type Json = null | boolean | number | string | readonly Json[] | { readonly [field: string]: Json };
type Fields = { readonly [field: string]: Json };

export interface Snapshot {
  readonly deployments: Json;
  readonly replicaSets: Json;
  /** One line per owner, with the number of its pods. */
  readonly pods: Json;
  readonly events: readonly string[];
}

interface KubeObjectShape {
  readonly metadata: {
    readonly name: string;
    readonly generation?: number;
    readonly ownerReferences?: readonly { readonly name: string }[];
    readonly deletionTimestamp?: string;
  };
  readonly spec?: { readonly replicas?: number; readonly paused?: boolean };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly readyReplicas?: number;
    readonly terminatingReplicas?: number;
  };
}

/**
 * Reports whether the namespace has settled: nothing terminates, every status has the newest generation, and every desired pod exists and
 * is ready.
 */
export async function isSettled(cluster: Cluster, namespace: string): Promise<boolean> {
  const { deployments, replicaSets, pods } = await read(cluster, namespace);
  const owners = [...deployments, ...replicaSets];
  return (
    pods.every(({ metadata }) => metadata.deletionTimestamp === undefined) &&
    owners.every(
      ({ metadata, spec, status }) =>
        status?.observedGeneration === metadata.generation &&
        // A paused Deployment may have no pods; its ReplicaSets are checked in any case.
        (spec?.paused === true || ((status?.replicas ?? 0) === spec?.replicas && (status?.readyReplicas ?? 0) === spec?.replicas)) &&
        (status?.terminatingReplicas ?? 0) === 0,
    )
  );
}

async function read(
  cluster: Cluster,
  namespace: string,
): Promise<{ readonly [kind in "deployments" | "replicaSets" | "pods"]: readonly KubeObjectShape[] }> {
  const [deployments, replicaSets, pods] = await Promise.all([
    cluster.list<KubeObjectShape>(`/apis/apps/v1/namespaces/${namespace}/deployments`),
    cluster.list<KubeObjectShape>(`/apis/apps/v1/namespaces/${namespace}/replicasets`),
    cluster.list<KubeObjectShape>(`/api/v1/namespaces/${namespace}/pods`),
  ]);
  return { deployments, replicaSets, pods };
}

export async function takeSnapshot(cluster: Cluster, namespace: string): Promise<Snapshot> {
  const { deployments, replicaSets, pods } = await read(cluster, namespace);
  const events = await cluster.list<EventShape>(`/api/v1/namespaces/${namespace}/events`);
  return {
    deployments: byName(deployments),
    replicaSets: byName(replicaSets),
    pods: counted(pods.map((pod) => podText(pod))),
    events: [...new Set(events.filter(isOurs).map(eventText))].toSorted(),
  };
}

interface EventShape {
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  readonly count: number;
  readonly involvedObject: { readonly kind: string; readonly apiVersion: string; readonly name: string };
  readonly source: { readonly component: string };
}

function isOurs({ involvedObject }: EventShape): boolean {
  return ["Deployment", "ReplicaSet", "ReplicationController"].includes(involvedObject.kind);
}

/** Formats an Event as `kubectl describe` does: with a count only if it is at least 2. */
function eventText({ type, reason, message, count, involvedObject, source }: EventShape): string {
  const times = count > 1 ? ` (x${count})` : "";
  return `${source.component}: ${type} ${reason} ${involvedObject.apiVersion} ${involvedObject.kind}/${involvedObject.name}: ${withoutPodNames(message)}${times}`;
}

/** `web-6b5f9c5d6b-x2x8k` → `web-6b5f9c5d6b-*****`; the hash stays, because it must be upstream's. */
export function withoutPodNames(text: string): string {
  return text.replace(/\b(pod:?|pods) ("?[a-z0-9.-]+)-[a-z0-9]{5}\b/g, "$1 $2-*****");
}

function byName(objects: readonly KubeObjectShape[]): Json {
  return objects.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1)).map((object) => normalised(object as unknown as Fields)); // parsed from JSON
}

function podText(pod: KubeObjectShape): string {
  const { spec: _spec, status: _status, ...rest } = normalised(pod as unknown as Fields) as Fields; // an object remains an object
  const spec = { ...(pod.spec as Fields | undefined) };
  delete spec["nodeName"];
  const name = pod.metadata.name.replace(/-[a-z0-9]{5}$/, "-*****");
  return (
    JSON.stringify({ ...rest, metadata: { ...(rest["metadata"] as Fields), name }, spec }) // metadata is an object
      // kubectl's own copy of what was applied names the pod, too.
      .replaceAll(pod.metadata.name, name)
      .replaceAll(/kube-api-access-[a-z0-9]{5}/g, "kube-api-access-*****")
  );
}

function counted(texts: readonly string[]): Json {
  const groups = Map.groupBy(texts.toSorted(), (text) => text);
  return [...groups].map(([text, same]) => ({ count: same.length, pod: JSON.parse(text) as Json })); // printed above
}

/** Fields that differ between runs, wherever they occur. */
const VOLATILE = new Set(["uid", "resourceVersion", "creationTimestamp", "managedFields", "lastUpdateTime", "lastTransitionTime"]);
/** The number of intermediate resizes depends on timing; isSettled checks that the status has the newest generation. */
const VOLATILE_OF_REPLICA_SETS = new Set(["generation", "observedGeneration"]);

function normalised(object: Fields): Json {
  const isReplicaSet =
    object["kind"] === "ReplicaSet" || (object["spec"] !== undefined && JSON.stringify(object["metadata"]).includes('"kind":"Deployment"'));
  const walk = (value: Json): Json => {
    if (Array.isArray(value)) return value.map((item: Json) => walk(item));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .filter(([field]) => !VOLATILE.has(field) && !(isReplicaSet && VOLATILE_OF_REPLICA_SETS.has(field)))
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([field, inner]: [string, Json]) => [field, field === "conditions" ? sortedByType(walk(inner)) : walk(inner)]),
    );
  };
  return walk(object);
}

function sortedByType(conditions: Json): Json {
  return Array.isArray(conditions)
    ? conditions.toSorted((a: Json, b: Json) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
    : conditions;
}
