/** Compares the objects of a cluster with what its Deployments want. */

/** What a cluster contains, and what was found in requests to it. */
export interface Inspection {
  /** Names of all Deployments, ReplicaSets and pods. */
  readonly names: readonly string[];
  /** Differences from the state of a cluster without faults, as sentences. */
  readonly problems: readonly string[];
  /** Tokens of all requests so far. */
  readonly tokens: readonly string[];
  /** Canaries in objects and in the requests so far. */
  readonly canaries: readonly string[];
}

export interface Inspected {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly generation?: number;
    readonly ownerReferences?: readonly { readonly uid: string }[];
  };
  readonly spec?: { readonly replicas?: number; readonly template?: { readonly spec?: unknown } };
  readonly status?: { readonly observedGeneration?: number; readonly replicas?: number; readonly updatedReplicas?: number };
}

export interface ClusterObjects {
  readonly deployments: readonly Inspected[];
  readonly replicaSets: readonly Inspected[];
  readonly pods: readonly Inspected[];
}

/** A rollout ends with one ReplicaSet that has replicas, with its pods, and with statuses of this generation. */
export function problemsOf({ deployments, replicaSets, pods }: ClusterObjects): readonly string[] {
  const owned = Map.groupBy([...replicaSets, ...pods], ({ metadata }) => metadata.ownerReferences?.[0]?.uid ?? "");
  const owners = new Set([...deployments, ...replicaSets].map(({ metadata }) => metadata.uid));
  return [
    ...deployments.flatMap((deployment) => problemsOfDeployment(deployment, owned)),
    ...replicaSets.flatMap((rs) => problemsOfReplicaSet(rs, owned)),
    ...[...owned].flatMap(([uid, objects]) =>
      owners.has(uid) ? [] : objects.map(({ metadata }) => `${metadata.name} has no owner that exists`),
    ),
  ];
}

type Owned = ReadonlyMap<string, readonly Inspected[]>;

function problemsOfDeployment({ metadata, spec, status }: Inspected, owned: Owned): readonly string[] {
  const name = `Deployment ${metadata.name}`;
  const wanted = spec?.replicas ?? 0;
  const sized = (owned.get(metadata.uid) ?? []).filter((rs) => (rs.spec?.replicas ?? 0) > 0);
  const sizes = sized.map((rs) => rs.spec?.replicas ?? 0);
  const template = JSON.stringify(spec?.template?.spec);
  return [
    ...(sizes.join() === (wanted === 0 ? "" : String(wanted)) ? [] : [`${name} wants ${wanted} pods, its ReplicaSets ${sizes.join(", ")}`]),
    ...sized
      .filter((rs) => JSON.stringify(rs.spec?.template?.spec) !== template)
      .map((rs) => `${name} has another pod template than its ReplicaSet ${rs.metadata.name}`),
    ...(status?.observedGeneration === metadata.generation ? [] : [`${name} has a status of an older generation`]),
    ...((status?.replicas ?? 0) === wanted && (status?.updatedReplicas ?? 0) === wanted
      ? []
      : [`${name} wants ${wanted} pods, and its status has ${status?.replicas ?? 0}, ${status?.updatedReplicas ?? 0} updated`]),
  ];
}

function problemsOfReplicaSet({ metadata, spec, status }: Inspected, owned: Owned): readonly string[] {
  const [name, wanted, exist] = [`ReplicaSet ${metadata.name}`, spec?.replicas ?? 0, owned.get(metadata.uid)?.length ?? 0];
  return [
    ...(exist === wanted ? [] : [`${name} wants ${wanted} pods and has ${exist}`]),
    ...((status?.replicas ?? 0) === wanted ? [] : [`${name} wants ${wanted} pods, and its status has ${status?.replicas ?? 0}`]),
    ...(status?.observedGeneration === metadata.generation ? [] : [`${name} has a status of an older generation`]),
  ];
}
