// 3. A controller says whom a change concerns in an events table, and the informer does the looking up: a table that needs an
//    object just asks for it, and is asked again once it has been read.
import { CORE_CACHE } from "../shared/controllers/registry/registry.ts";
import { expect, test } from "vitest";
import type { AffectedKeys } from "../shared/controllers/cache/affected-keys.ts";
import { prepareChanges } from "../shared/controllers/cache/prepare.ts";
import type { IndexRequest } from "../shared/store/ports/store.ts";
import { cachedPod, cachedReplicaSet, rowOf } from "../test/support/builders.ts";

/** Enqueues the Deployment of a pod's ReplicaSet when the pod is deleted. */
const wakeTheDeployment: AffectedKeys = (delta, lookups) => {
  if (delta.resource !== "pods" || delta.new !== undefined || delta.old?.owner === undefined) return [];
  const rs = lookups.get("replicasets", `${delta.old.namespace}/${delta.old.owner.name}`);
  const owner = rs?.metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (!owner) return [];
  return [{ controller: "deployment", key: `${delta.old.namespace}/${owner.name}`, uid: owner.uid, urgency: "act" }];
};

test("a deleted pod enqueues its Deployment after one look-up of its ReplicaSet", async () => {
  const rs = cachedReplicaSet({ name: "web-1", uid: "rs-1", owner: { kind: "Deployment", name: "web", uid: "d-1" } });
  const pod = cachedPod({ name: "web-1-a", owner: { kind: "ReplicaSet", name: "web-1", uid: "rs-1" } });
  const asked: IndexRequest[] = [];
  const readIndex = (request: IndexRequest) => {
    asked.push(request);
    const found = [
      { resource: "pods" as const, row: rowOf(pod) },
      { resource: "replicasets" as const, row: rowOf(rs) },
    ];
    const rows = found.filter(({ resource, row }) =>
      request.rows?.some((wanted) => wanted.resource === resource && wanted.key === row.key),
    );
    return Promise.resolve({ rows, primaries: [], counts: [] });
  };
  const change = { type: "delete", key: "shop/web-1-a", uid: pod.uid, rv: "9", object: undefined } as const;
  const { items } = await prepareChanges({ readIndex }, { ...CORE_CACHE, affectedKeys: [wakeTheDeployment] }, "pods", [change], {
    live: () => Promise.reject(new Error("what is cached can be believed")),
  });
  expect(items[0]?.effects).toEqual([{ controller: "deployment", key: "shop/web", uid: "d-1", urgency: "act" }]);
  expect(asked.map(({ rows }) => rows?.map(({ key }) => key))).toEqual([["shop/web-1-a"], ["shop/web-1"]]);
});
