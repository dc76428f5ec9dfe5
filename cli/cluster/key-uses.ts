/** Counts which MAC keys signed the cached data. */
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { KeyStore, KeyUse } from "@deltaloop/store/ports";

/** Rounds for values that change during their replacement. By the last round, writers use the current key. */
const ROUNDS_MAX = 3;

/** Returns the counts at the end. */
export async function keyUses(store: KeyStore, resign: boolean): Promise<readonly (readonly [CachedResource, KeyUse])[]> {
  const uses: (readonly [CachedResource, KeyUse])[] = [];
  for (const resource of CACHED_RESOURCES) {
    let use = await store.keyUse(resource, resign);
    for (let round = 0; resign && round < ROUNDS_MAX && use.former + use.ghosts > 0; round++) use = await store.keyUse(resource, true);
    uses.push([resource, use]);
  }
  return uses;
}

/** Whether only the current key is in use, and each index entry has a row and each row an index entry. */
export function isClean({ former, foreign, ghosts, hidden }: KeyUse): boolean {
  return former + foreign + ghosts + hidden === 0;
}

/** Describes the counts in one line. */
export function describeUse(resource: CachedResource, { current, former, foreign, ghosts, hidden }: KeyUse): string {
  const others = [
    `${former} with a former key`,
    `${foreign} with an unknown key or an invalid MAC`,
    ...(ghosts > 0 ? [`${ghosts} index entries without a row`] : []),
    ...(hidden > 0 ? [`${hidden} rows without an index entry`] : []),
  ];
  return `${resource}: ${current} signed with the current key, ${others.join(", ")}`;
}
