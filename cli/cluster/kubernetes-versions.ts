/** The Kubernetes versions that act mode supports (docs/reference/releases.md). */
import { ACTING_RELEASES, compareVersions } from "@deltaloop/kube/releases";

/** The range of minor versions; patches, pre-releases and suffixes of distributions are ignored. */
export const SUPPORTED_VERSIONS = {
  /** The first version in which resourceVersions can be compared (KEP-5504). */
  from: ACTING_RELEASES[0]?.name ?? "",
  /** Pod template types are known up to this version. */
  to: ACTING_RELEASES.at(-1)?.name ?? "",
} as const;

/** Why a version is unsupported; undefined if it is supported. */
export function unsupported(gitVersion: string): string | undefined {
  const { from, to } = SUPPORTED_VERSIONS;
  if (compareVersions(gitVersion, from) < 0)
    return `Kubernetes ${gitVersion} is older than ${from}: its resourceVersions are not guaranteed to be comparable`;
  if (compareVersions(gitVersion, `${to}.999`) > 0)
    return `Kubernetes ${gitVersion} is newer than ${to}: pod templates may have fields that this build does not know, so it can miss their changes`;
  return undefined;
}
