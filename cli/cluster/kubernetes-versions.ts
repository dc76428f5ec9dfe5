/** Kubernetes versions that we act on, and why no others (docs/reference/releases.md). */
import { LAYOUT_VERSION } from "@deltaloop/kube/pod-template";

/** The minor versions from which and up to which; patches, pre-releases and what distributions append do not count. */
export const SUPPORTED_VERSIONS = {
  /** From this one on resourceVersions are promised to be comparable (KEP-5504). */
  from: "1.35",
  /** Pod templates are known as of this one. */
  to: LAYOUT_VERSION,
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

/** Negative, zero or positive as `a` is older than, equal to or newer than `b`: `v1.9.1` and `1.9` are compared part by part. */
function compareVersions(a: string, b: string): number {
  const [x, y] = [a, b].map((text) => (/\d+(?:\.\d+)*/.exec(text)?.[0] ?? "0").split(".").map(Number));
  for (let i = 0; i < Math.max(x?.length ?? 0, y?.length ?? 0); i++) {
    const difference = (x?.[i] ?? 0) - (y?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
