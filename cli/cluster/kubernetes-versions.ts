/** Kubernetes versions that we act on, and why no others (docs/reference/releases.md). */
import { ACTING_RELEASES, compareVersions } from "@deltaloop/kube/releases";

/** The minor versions from which and up to which; patches, pre-releases and what distributions append do not count. */
export const SUPPORTED_VERSIONS = {
  /** From this one on resourceVersions are promised to be comparable (KEP-5504). */
  from: ACTING_RELEASES[0]?.name ?? "",
  /** Pod templates are known as of this one. */
  to: ACTING_RELEASES.at(-1)?.name ?? "",
} as const;

/** Why a version is none of them, in words; undefined: it is one. */
export function unsupported(gitVersion: string): string | undefined {
  const { from, to } = SUPPORTED_VERSIONS;
  if (compareVersions(gitVersion, from) < 0)
    return `Kubernetes ${gitVersion} is older than ${from}: it does not promise resourceVersions that can be compared`;
  if (compareVersions(gitVersion, `${to}.999`) > 0)
    return `Kubernetes ${gitVersion} is newer than ${to}: a pod template may have fields that are not known here, and change without being seen to`;
  return undefined;
}
