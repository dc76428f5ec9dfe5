/** The releases of the recorded cluster: from the option, or from the capture. */
import { Option } from "commander";

import { UsageError } from "@deltaloop/base";
import { consoleLog, printable } from "@deltaloop/base/output";
import { ALL_RELEASES, OWN_RELEASE, releaseOf } from "@deltaloop/kube/releases";
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

/** @throws {UsageError} for a release without a table of types */
export function knownRelease(version: string): Release {
  const release = releaseOf(version, ALL_RELEASES);
  if (release !== undefined) return release;
  throw new UsageError(`Kubernetes ${version} is not supported: use one of ${ALL_RELEASES.map(({ name }) => name).join(", ")}`);
}
