/**
 * Threat: a tenant's running pods name another namespace's ReplicaSet as their controller, so that the ReplicaSet's own pods appear to be
 * surplus. Who: anyone who may create or patch pods in one namespace and knows the ReplicaSet's uid, which every reader of its pods does.
 * Worst effect before owners were bound to their namespace: one ordinary sync deleted all 3 pods of the ReplicaSet, which then counted the
 * tenant's six pods and created no new ones. Nothing was logged.
 */
import { afterEach, expect, it } from "vitest";
import { MALLORY, namesOf, pod, referenceTo, startSmallCluster, VICTIM, workload } from "./cluster.ts";
import type { Reference, SmallCluster } from "./cluster.ts";

const FOREIGN = ["m-1", "m-2", "m-3", "m-4", "m-5", "m-6"];

/** Two ways to set the owner reference. The API server accepts both, because it does not check owners in other namespaces. */
const WAYS: readonly { readonly way: string; readonly set: (cluster: SmallCluster, reference: Reference) => Promise<void> }[] = [
  {
    way: "created with",
    set: async (cluster, reference) => {
      for (const name of FOREIGN) await cluster.post(MALLORY, "pods", pod(name, reference));
    },
  },
  {
    way: "patched to have",
    set: async (cluster, reference) => {
      for (const name of FOREIGN) await cluster.post(MALLORY, "pods", pod(name));
      await cluster.rest();
      for (const name of FOREIGN) await cluster.mergePatch(MALLORY, "pods", name, { metadata: { ownerReferences: [reference] } });
    },
  },
];

let cluster: SmallCluster;
afterEach(() => cluster.stop());

it.each(WAYS)(
  "a ReplicaSet keeps its own pods if six running pods in another namespace are $way an owner reference to it",
  async ({ set }) => {
    cluster = await startSmallCluster();
    const rs = await cluster.post(VICTIM, "replicasets", workload("web", 3));
    await cluster.rest();
    const own = namesOf(await cluster.pods(VICTIM));
    expect(own).toHaveLength(3);

    await set(cluster, referenceTo("ReplicaSet", rs));
    await cluster.rest();
    const foreign = namesOf(await cluster.pods(MALLORY));
    await cluster.mergePatch(VICTIM, "replicasets", "web", { metadata: { labels: { everyday: "change" } } });
    await cluster.rest();

    expect(namesOf(await cluster.pods(VICTIM))).toEqual(own);
    expect(namesOf(await cluster.pods(MALLORY))).toEqual(foreign);
    expect(cluster.writes(MALLORY)).toEqual([]);
    expect(cluster.writes(VICTIM).filter((write) => write.includes("delete"))).toEqual([]);
    expect(await cluster.get(VICTIM, "replicasets", "web")).toMatchObject({ status: { replicas: 3, readyReplicas: 3 } });

    // The ReplicaSet still replaces a lost pod and counts its own pods.
    await cluster.remove(VICTIM, "pods", own[0]?.split(" ")[0] ?? "");
    await cluster.rest();
    expect(await cluster.pods(VICTIM)).toHaveLength(3);
    await cluster.mergePatch(VICTIM, "replicasets", "web", { spec: { replicas: 2 } });
    await cluster.rest();
    expect(await cluster.pods(VICTIM)).toHaveLength(2);
    expect(namesOf(await cluster.pods(MALLORY))).toEqual(foreign);
  },
);
