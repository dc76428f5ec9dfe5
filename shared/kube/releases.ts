export { ACTING_RELEASES, OWN_RELEASE, RELEASED } from "./releases/acting.ts";
export { ALL_RELEASES } from "./releases/all.ts";
export { compareVersions, releaseName, releaseOf } from "./releases/release.ts";
export type { Behaviour, Release, ReleaseAt } from "./releases/release.ts";
