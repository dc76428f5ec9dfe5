/** The differences between the objects at the end of a run and their desired state. */
import { controllerRef } from "../../../shared/kube/objects/owner-references.ts";
import { templatesEqual } from "../../../shared/kube/pod-template/digest.ts";
import { compileSelector, matches } from "../../../shared/kube/selectors/selector.ts";
import type { Deployment, KubeObject, Pod, ReplicaSet } from "../../../shared/kube/objects/wire.ts";

/** Objects with their kind, as `standingIn` of closed.ts returns them. */
export function undesired(objects: readonly KubeObject[]): readonly string[] {
  const alive = objects.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const of = <T>(...kinds: readonly string[]): readonly (T & KubeObject)[] =>
    alive.filter(({ kind }) => kinds.includes(kind ?? "")) as unknown as readonly (T & KubeObject)[]; // the kind determines the type
  const [pods, replicaSets] = [of<Pod>("Pod").filter(isActive), of<ReplicaSet>("ReplicaSet", "ReplicationController")];
  return [
    ...replicaSets.flatMap((rs) => wrongReplicas(rs, pods)),
    ...of<Deployment>("Deployment").flatMap((d) => wrongReplicaSets(d, replicaSets)),
  ];
}

function wrongReplicas(rs: ReplicaSet & KubeObject, pods: readonly (Pod & KubeObject)[]): readonly string[] {
  const here = pods.filter(({ metadata }) => metadata.namespace === rs.metadata.namespace);
  const own = here.filter(({ metadata }) => controllerRef(metadata)?.uid === rs.metadata.uid);
  const selects = selectorOf(rs);
  const unselected = own.filter(({ metadata }) => !selects(metadata.labels ?? {}));
  const orphans = here.filter(({ metadata }) => controllerRef(metadata) === undefined && selects(metadata.labels ?? {}));
  const { status } = rs;
  const says = [status?.observedGeneration, status?.replicas ?? 0, status?.readyReplicas ?? 0].join();
  const is = [rs.metadata.generation, own.length, own.filter(isReady).length].join();
  const want = rs.spec?.replicas ?? 1;
  const name = nameOf(rs);
  return [
    ...(own.length === want ? [] : [`${name} has ${own.length} pods, wants ${want}`]),
    ...unselected.map((pod) => `${name} did not release ${pod.metadata.name}`),
    ...orphans.map((pod) => `${name} did not adopt ${pod.metadata.name}`),
    ...(says === is ? [] : [`${name} reports ${says}, is ${is}`]),
  ];
}

function wrongReplicaSets(d: Deployment & KubeObject, replicaSets: readonly (ReplicaSet & KubeObject)[]): readonly string[] {
  const own = replicaSets.filter(({ metadata }) => controllerRef(metadata)?.uid === d.metadata.uid);
  const newest = own.filter((rs) => templatesEqual(rs.spec?.template ?? {}, d.spec?.template ?? {}));
  const name = nameOf(d);
  const [updated] = newest;
  if (d.spec?.paused === true) return [];
  const old = own.filter((rs) => rs !== updated && rs.spec?.replicas !== 0);
  const reported = [d.status?.observedGeneration, d.status?.updatedReplicas ?? 0].join();
  const is = [d.metadata.generation, updated?.status?.replicas ?? 0].join();
  return [
    ...(newest.length === 1 ? [] : [`${name} has ${newest.length} ReplicaSets with its template`]),
    ...(updated?.spec?.replicas === d.spec?.replicas ? [] : [`${name}: its new ReplicaSet has size ${updated?.spec?.replicas}`]),
    ...old.map((rs) => `${name}: old ${nameOf(rs)} has size ${rs.spec?.replicas}`),
    ...(reported === is ? [] : [`${name} reports ${reported}, is ${is}`]),
  ];
}

function selectorOf({ kind, spec }: ReplicaSet & KubeObject): (labels: Readonly<Record<string, string>>) => boolean {
  const isPlain = kind === "ReplicationController"; // a map of labels
  const labels = isPlain ? { matchLabels: spec?.selector as unknown as Record<string, string> } : spec?.selector;
  const selector = compileSelector(labels ?? {});
  return (given) => selector.kind !== "Invalid" && matches(selector, given);
}

function isActive({ status }: Pod): boolean {
  return status?.phase !== "Succeeded" && status?.phase !== "Failed";
}

function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;
}

function nameOf({ kind, metadata }: KubeObject): string {
  return `${kind} ${metadata.namespace}/${metadata.name}`;
}
