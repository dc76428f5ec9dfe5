/** The cache of a running `deltaloop dev`, read by the test's process and compared with the API server. */
import type { Redis } from "ioredis";
import { expect } from "vitest";

import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { LANES } from "../../shared/store/lane.ts";
import { CACHED_RESOURCES, RESOURCES } from "../../shared/kube/objects/resources.ts";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { CANARY, NAMESPACE } from "../../shared/controllers/registry/names.ts";
import { createSigner } from "../../shared/store/signer.ts";
import { cacheIdentity } from "../../shared/controllers/cache/identity.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import { HOLE_LIMIT_MS } from "../../shared/base/times.ts";
import type { Cluster } from "./e2e.ts";

/** Environment variables of a `dev` whose cache another process reads. */
export const DEV_SECRETS = { DELTALOOP_DIGEST_KEY: "a digest key of this test", DELTALOOP_MAC_KEY: "a mac key of this test" };

/** The cache of a `dev --act` started with DEV_SECRETS; `output` is its output so far. */
export function storeOfDev(redis: Redis, output: string): Store {
  const cid = /cluster ([0-9a-f]{12})/.exec(output)?.[1] ?? "";
  return createRedisStore(redis, {
    deployment: "dev",
    cluster: cid,
    identity: cacheIdentity(createDigester(DEV_SECRETS.DELTALOOP_DIGEST_KEY)),
    signer: createSigner([DEV_SECRETS.DELTALOOP_MAC_KEY], cid),
    holeLimitMs: HOLE_LIMIT_MS,
  });
}

/** @throws with the differences */
export async function isSame(store: Store, cluster: Pick<Cluster, "list">): Promise<true> {
  expect(await differences(store, cluster)).toEqual([]);
  return true;
}

/** Rows that differ from the API server, objects without a row, and rows without an index entry. */
async function differences(store: Store, cluster: Pick<Cluster, "list">): Promise<readonly string[]> {
  const found: string[] = [];
  for (const resource of CACHED_RESOURCES) {
    const rows = await Promise.all(Array.from({ length: LANES[resource] }, (_, lane) => store.readLane(resource, lane)));
    const cached = rows
      .flatMap((lane) => lane.rows)
      .filter(({ key }) => key !== `${NAMESPACE}/${CANARY}`)
      .map(({ key, uid, rv }) => `${resource} ${key} ${uid} ${rv}`);
    const listed = await cluster.list<{ readonly metadata: Readonly<Record<string, string>> }>(pathOf(resource));
    // A watcher with a write guard does not cache its canary (informer §11.9).
    const objects = listed.filter(({ metadata }) => metadata["name"] !== CANARY);
    const live = objects.map(({ metadata: m }) => `${resource} ${m["namespace"]}/${m["name"]} ${m["uid"]} ${m["resourceVersion"]}`);
    const [here, there] = [new Set(cached), new Set(live)];
    found.push(...live.filter((one) => !here.has(one)).map((one) => `not cached: ${one}`));
    found.push(...cached.filter((one) => !there.has(one)).map((one) => `not there: ${one}`));
    const { ghosts, hidden, foreign } = await store.keyUse(resource, false);
    if (ghosts + hidden + foreign > 0) found.push(`${resource}: ${ghosts} ghosts, ${hidden} hidden, ${foreign} foreign`);
  }
  return found;
}

function pathOf(resource: CachedResource): string {
  const { apiVersion } = RESOURCES[resource];
  return apiVersion === "v1" ? `/api/v1/${resource}` : `/apis/${apiVersion}/${resource}`;
}
