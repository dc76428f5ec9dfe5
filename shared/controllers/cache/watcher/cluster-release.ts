/**
 * The release of Kubernetes that the cluster runs, as the watcher publishes it in the Store (informer §11.12).
 *
 * - The version is read again whenever a stream connects or lists: an upgrade breaks every stream.
 * - While API servers of two releases answer, the lower one counts: no feature of the newer one is used before all are upgraded.
 * - A failed read changes nothing.
 */
import type { CachedResource, Resource } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { KubeWatch } from "@deltaloop/kube/client";
import { ACTING_RELEASES, compareVersions, releaseName, releaseOf } from "@deltaloop/kube/releases";
import type { Release } from "@deltaloop/kube/releases";
import type { Clock, Log } from "@deltaloop/base";

export interface ClusterRelease {
  /** Reads the version, unless a read is in progress or ended less than a second ago. Never fails. */
  look(): Promise<void>;
  /** The release to publish; undefined before any was read. */
  current(): string | undefined;
}

export interface ClusterReleasePorts {
  /** The API server's gitVersion. */
  readonly read: () => Promise<string>;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long a release counts after an API server last reported it. */
const COUNTS_MS = 10 * 60_000;
/** How often the version is read while two releases are reported. */
const UNSETTLED_MS = 60_000;
const LOOK_MS_MIN = 1_000;

export interface ClusterReleaseOptions {
  /** The gitVersion that was read at start. */
  readonly first?: string;
  /** The releases that the functions decide for. */
  readonly known?: readonly Release[];
  /** Publishes the nearest known release in place of an unknown one (DELTALOOP_KUBERNETES=any). */
  readonly isAnyKnown?: boolean;
}

export function createClusterRelease(
  { read, clock, log }: ClusterReleasePorts,
  { first, known = ACTING_RELEASES, isAnyKnown = false }: ClusterReleaseOptions = {},
): ClusterRelease {
  const seenMs = new Map<string, number>();
  let lookedMs = Number.NEGATIVE_INFINITY;
  let published: string | undefined;

  const note = (gitVersion: string): void => {
    const name = releaseName(gitVersion);
    if (name === undefined) return log.warn("the API server's version is not a Kubernetes version", { gitVersion });
    seenMs.delete(name); // re-inserts the name, so that the last entry is the last release seen
    seenMs.set(name, clock.now());
  };
  if (first !== undefined) note(first);

  const look = async (): Promise<void> => {
    if (clock.now() - lookedMs < LOOK_MS_MIN) return;
    lookedMs = clock.now();
    try {
      note(await read());
    } catch (error) {
      log.warn("failed to read the API server's version; keeping the last known one", { error: describeError(error) });
    }
  };

  return {
    look,
    current() {
      const counting = [...seenMs].filter(([, atMs], i) => i === seenMs.size - 1 || clock.now() - atMs < COUNTS_MS).map(([name]) => name);
      if (counting.length > 1 && clock.now() - lookedMs >= UNSETTLED_MS) void look();
      const [lowest] = counting.toSorted(compareVersions);
      const next = lowest === undefined || !isAnyKnown ? lowest : nearestOf(known, lowest);
      if (next !== published) report(log, published, next, known);
      return (published = next);
    },
  };
}

/** Wraps `kube` so that it reads the release whenever a stream connects or lists. */
export function lookingAtRelease<R extends Resource = CachedResource>(
  kube: KubeWatch<R>,
  release: ClusterRelease | undefined,
): KubeWatch<R> {
  if (release === undefined) return kube;
  return {
    ...kube,
    listPage: (resource, query, signal) => {
      if (query.continue === undefined) void release.look();
      return kube.listPage(resource, query, signal);
    },
    watch: (resource, query, signal) => {
      void release.look();
      return kube.watch(resource, query, signal);
    },
  };
}

function nearestOf(known: readonly Release[], release: string): string {
  const older = known.findLast(({ name }) => compareVersions(name, release) <= 0);
  return (older ?? known[0])?.name ?? release;
}

function report(log: Log, from: string | undefined, to: string | undefined, known: readonly Release[]): void {
  if (to === undefined) return;
  if (releaseOf(to, known) === undefined) {
    const remedy =
      "run a deltaloop that knows this release; DELTALOOP_KUBERNETES=any acts with another release's template hashes and rules";
    log.error("this build does not support the cluster's Kubernetes release: its controllers sync no keys", { release: to, remedy });
  } else if (from !== undefined) log.info("the cluster's Kubernetes release has changed", { from, to });
}
