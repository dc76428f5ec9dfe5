import { ALL_RELEASES, releaseOf, type Release } from "../../shared/kube/releases.ts";

/** The release of `1.36`. @throws {Error} for one without a folder in shared/kube/releases: by default another one would decide */
export function knownRelease(name: string): Release {
  const release = releaseOf(name, ALL_RELEASES);
  if (release === undefined) throw new Error(`no release ${name}`);
  return release;
}
