/** The releases of the recorded cluster: from the option, or from the capture. */
import { Option } from "commander";

import { UsageError } from "@deltaloop/base";
import { consoleLog, printable } from "@deltaloop/base/output";
import { ACTING_RELEASES, ALL_RELEASES, compareVersions, OWN_RELEASE, releaseOf } from "@deltaloop/kube/releases";
import type { Release, ReleaseAt } from "@deltaloop/kube/releases";
import type { Capture } from "@deltaloop/replay/capture";

export interface RecordedReleaseFlag {
  readonly kubernetes?: Release;
}

export function recordedReleaseOption(): Option {
  return new Option(
    "--kubernetes <release>",
    `release of the recorded cluster, such as 1.34; decides hashes and rules (default: the capture's, or ${OWN_RELEASE.name})`,
  ).argParser(knownRelease);
}

/** The release from the option, else from the capture, which may contain an upgrade; undefined: neither has one. */
export function recordedRelease(flag: Release | undefined, { versions }: Pick<Capture, "versions">): ReleaseAt | undefined {
  if (flag !== undefined) return () => flag;
  const recorded = versions?.map(({ fromMs, kubernetes }) => {
    const known = releaseOf(kubernetes, ALL_RELEASES);
    if (known === undefined)
      consoleLog("", "info").warn(
        `Kubernetes ${printable(kubernetes)} of the capture is not supported: using the rules of ${OWN_RELEASE.name}`,
      );
    return { fromMs, release: known ?? OWN_RELEASE };
  });
  return recorded && ((atMs) => (recorded.findLast(({ fromMs }) => fromMs <= atMs) ?? recorded[0])?.release ?? OWN_RELEASE);
}

/**
 * A closed replay writes, and the write contracts cover only the releases that act mode supports. Replaces any other release by the nearest
 * of these.
 */
export function actingRelease(recorded: ReleaseAt): ReleaseAt {
  const reported = new Set<string>();
  return (atMs) => {
    const { name } = recorded(atMs);
    const nearest = ACTING_RELEASES.findLast((each) => compareVersions(each.name, name) <= 0) ?? ACTING_RELEASES[0] ?? OWN_RELEASE;
    if (nearest.name !== name && !reported.has(name)) {
      reported.add(name);
      consoleLog("", "info").warn(`act mode does not support Kubernetes ${name}: using the rules of ${nearest.name}`);
    }
    return nearest;
  };
}

/** Parses a version. @throws {UsageError} for a release without a table of types */
export function knownRelease(version: string): Release {
  const release = releaseOf(version, ALL_RELEASES);
  if (release !== undefined) return release;
  throw new UsageError(`Kubernetes ${version} is not supported: use one of ${ALL_RELEASES.map(({ name }) => name).join(", ")}`);
}
