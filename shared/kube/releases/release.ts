/** Differences between minor releases of Kubernetes: the types behind a pod template, and behaviour of the controllers. */

export interface Release {
  /** The minor release, for example `1.36`. */
  readonly name: string;
  /** The first known release's table of Go types, then the changes of each later release up to this release. */
  readonly types: readonly string[];
  readonly behaviour: Behaviour;
}

/** The release that a cluster runs at a time, in milliseconds since the epoch. */
export type ReleaseAt = (atMs: number) => Release;

/** Only behaviour that this code depends on. Each doc comment names the release that changed it. */
export interface Behaviour {
  /** `status.terminatingReplicas` is set. 1.35: gate DeploymentReplicaSetTerminatingReplicas is on by default. */
  readonly countsTerminating: boolean;
  /** A Deployment's name is cut so that its ReplicaSet's fits. 1.34: deployment/sync.go generateReplicaSetName. */
  readonly cutsReplicaSetNames: boolean;
  /**
   * When a ReplicaSet is requeued for minReadySeconds: when the next pod becomes available, or only after the whole time once all replicas
   * are ready. 1.34: controller_utils.go FindMinNextPodAvailabilityCheck.
   */
  readonly availabilityCheck: "next pod" | "all ready";
  /**
   * Old pods block a Recreate rollout only if the Deployment selects them. 1.36 ignores the selector: deployment_controller.go
   * getPodMapForDeployment.
   */
  readonly recreateAsksSelector: boolean;
  /** A rollout whose scaling or cleanup failed still writes the status. 1.38: deployment/sync.go syncRolloutStatusAfter. */
  readonly writesStatusAfterFailure: boolean;
}

/** A release's differences from the previous one; the first release is complete. */
export interface Changes {
  readonly name: string;
  readonly types: string;
  readonly behaviour?: Partial<Behaviour>;
}

/** The releases that a chain of changes defines. */
export function releasesOf(first: Changes & Pick<Release, "behaviour">, changes: readonly Changes[]): readonly Release[] {
  let last: Release = { ...first, types: [first.types] };
  return [last, ...changes.map((each) => (last = nextRelease(last, each)))];
}

export function nextRelease(before: Release, { name, types, behaviour }: Changes): Release {
  return { name, types: [...before.types, types], behaviour: { ...before.behaviour, ...behaviour } };
}

/** `1.37` of `v1.37.2-eks-1a2b3c4`; undefined for text that is not a version. */
export function releaseName(gitVersion: string): string | undefined {
  return /^v?(\d+\.\d+)(?!\d)/.exec(gitVersion)?.[1];
}

/** The release of a version, if it is among `releases`. */
export function releaseOf(gitVersion: string, releases: readonly Release[]): Release | undefined {
  const name = releaseName(gitVersion);
  return releases.find((each) => each.name === name);
}

/**
 * Returns a negative, zero or positive number if `a` is older than, equal to or newer than `b`. `v1.9.1` and `1.9` are compared component
 * by component.
 */
export function compareVersions(a: string, b: string): number {
  const [x, y] = [a, b].map((text) => (/\d+(?:\.\d+)*/.exec(text)?.[0] ?? "0").split(".").map(Number));
  for (let i = 0; i < Math.max(x?.length ?? 0, y?.length ?? 0); i++) {
    const difference = (x?.[i] ?? 0) - (y?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
