/**
 * Threat: two messages in the delta queue make a bare pod appear to be a ReplicaSet's surplus pod, which is then deleted. Who: anyone who
 * may send to the delta queue. Before: the applier trusted both messages, one with a ReplicaSet of size 0, one with the pod as its
 * dependent, and the controller sent a real DELETE.
 */
import { expect, it } from "vitest";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { cachedPod, cachedReplicaSet, ownedBy } from "../support/builders.ts";
import { CLUSTER, DISGUISES, disguises, startQ1Rig } from "./q1-rig.ts";

it.each(DISGUISES)("forged messages delete no bare pod: $name", async ({ index }) => {
  const rig = await startQ1Rig();
  await rig.createPod("vault");
  await rig.pass(1_000);
  expect(rig.cached()).toEqual(["shop/vault"]);

  const evil = cachedReplicaSet({ name: "evil", replicas: 0, selector: { app: "vault" }, resourceVersion: "900000" });
  const row = (await rig.store.readIndex({ rows: [{ resource: "pods", key: "shop/vault" }] })).rows[0]?.row;
  const pod = cachedPod({
    name: "vault",
    uid: row?.uid ?? "",
    labels: { app: "vault" },
    resourceVersion: "900001",
    owner: ownedBy("ReplicaSet", evil),
  });
  const send = async (resource: CachedResource, key: string, item: object): Promise<void> => {
    const lane = laneOf(key, LANES[resource]);
    const text = JSON.stringify({ ...rig.nextHead(resource, lane), g: 0, k: "D", items: [item] });
    await rig.inject(`${CLUSTER}.${resource}.${lane}`, disguises(text, rig.sent.at(-1)?.body ?? "")[index] ?? "");
  };
  await send("replicasets", "shop/evil", { t: "A", key: "shop/evil", uid: evil.metadata.uid, rv: "900000", o: evil });
  await send("pods", "shop/vault", { t: "M", key: "shop/vault", uid: pod.uid, rv: "900001", o: pod });
  await rig.pass(5_000);

  expect(rig.writes).toEqual([]);
  expect(await rig.get("/api/v1/namespaces/shop/pods/vault")).toBe(200);
  expect(rig.cached("replicasets")).toEqual([]);
  expect(rig.queue.size()).toBe(0);
  expect(await rig.store.forgeries()).toHaveLength(2);
});
