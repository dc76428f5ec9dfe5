/** The release of the cluster that a capture was recorded on, which a capture does not contain. */
import { Option } from "commander";

import { UsageError } from "@deltaloop/base";
import { ALL_RELEASES, OWN_RELEASE, releaseOf } from "@deltaloop/kube/releases";
import type { Release } from "@deltaloop/kube/releases";

export interface RecordedReleaseFlag {
  readonly kubernetes?: Release;
}

export function recordedReleaseOption(): Option {
  return new Option(
    "--kubernetes <release>",
    `release of the recorded cluster, such as 1.34; decides hashes and rules (default: ${OWN_RELEASE.name})`,
  ).argParser(knownRelease);
}

/** @throws {UsageError} for one without a table of types */
export function knownRelease(version: string): Release {
  const release = releaseOf(version, ALL_RELEASES);
  if (release !== undefined) return release;
  throw new UsageError(`Kubernetes ${version} is not known here: use one of ${ALL_RELEASES.map(({ name }) => name).join(", ")}`);
}
