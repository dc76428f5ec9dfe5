import { ALL_RELEASES, releaseOf, type Release } from "../../shared/kube/releases.ts";

/** The release of `1.36`. @throws {Error} without a folder in shared/kube/releases, because a fallback would silently decide */
export function knownRelease(name: string): Release {
  const release = releaseOf(name, ALL_RELEASES);
  if (release === undefined) throw new Error(`unknown release ${name}`);
  return release;
}
