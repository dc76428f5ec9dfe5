/**
 * Threat: a tenant's ReplicaSet names another namespace's Deployment as its controller, and takes part in its rollout. Who: anyone who may
 * create or patch ReplicaSets in one namespace and read the Deployment's uid. Worst effect before owners were bound to their namespace: its
 * replicas counted as old ones of the Deployment, so that a rollout scaled the Deployment's own pods below the minimum and stopped there,
 * with 1 of 3 ready. Nothing was logged.
 */
import { afterEach, expect, it } from "vitest";
import { MALLORY, referenceTo, startSmallCluster, TEMPLATE, VICTIM, workload } from "./cluster.ts";
import type { Reference, SmallCluster } from "./cluster.ts";

const IMAGE_2 = { ...TEMPLATE, spec: { containers: [{ name: "main", image: "web:2" }] } };
/** The bounds for 3 replicas, with 25 % rounded up for the surge and down for the unavailable pods. */
const [ASKED_MAX, READY_MIN] = [4, 3];

const WAYS: readonly { readonly way: string; readonly set: (cluster: SmallCluster, reference: Reference) => Promise<void> }[] = [
  { way: "created with", set: async (to, reference) => void (await to.post(MALLORY, "replicasets", workload("evil", 6, reference))) },
  {
    way: "patched to have",
    set: async (to, reference) => {
      await to.post(MALLORY, "replicasets", workload("evil", 6));
      await to.rest();
      await to.mergePatch(MALLORY, "replicasets", "evil", { metadata: { ownerReferences: [reference] } });
    },
  },
];

let cluster: SmallCluster;
afterEach(() => cluster.stop());

it.each(WAYS)("a Deployment ignores a ReplicaSet in another namespace that is $way an owner reference to it", async ({ set }) => {
  cluster = await startSmallCluster();
  const deployment = await cluster.post(VICTIM, "deployments", workload("web", 3));
  await cluster.rest();
  await set(cluster, referenceTo("Deployment", deployment));
  await cluster.rest();

  await cluster.mergePatch(VICTIM, "deployments", "web", { spec: { template: IMAGE_2 } });
  for (let seconds = 0; seconds < 60; seconds += 0.1) {
    await cluster.advance(100);
    const pods = (await cluster.pods(VICTIM)).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const ready = pods.filter(({ status }) => status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True"));
    expect(pods.length).toBeLessThanOrEqual(ASKED_MAX);
    expect(ready.length).toBeGreaterThanOrEqual(READY_MIN);
  }

  const counts = { replicas: 3, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 3 };
  expect(await cluster.get(VICTIM, "deployments", "web")).toMatchObject({ status: counts });
  const images = (await cluster.pods(VICTIM)).map(({ spec }) => spec?.containers[0]?.image);
  expect(images).toEqual(["web:2", "web:2", "web:2"]);
  // The tenant's ReplicaSet keeps its own spec; no other controller changes it.
  expect(await cluster.get(MALLORY, "replicasets", "evil")).toMatchObject({ spec: { replicas: 6 } });
  expect(cluster.writes(MALLORY).filter((write) => write.startsWith("sync-deployment"))).toEqual([]);
  expect(await cluster.pods(MALLORY)).toHaveLength(6);
});
