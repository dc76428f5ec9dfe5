/**
 * Threat: pods reference a ReplicaSet's uid with another kind or name, so that one component counts them as its dependents and another does
 * not. Who: anyone who may create pods in the ReplicaSet's namespace, but may neither delete pods nor change the ReplicaSet. Worst effect
 * before owners were bound to their namespace: the pods counted as replicas, nine in all, and one ordinary sync deleted six pods that did
 * not belong to the ReplicaSet. If those pods ranked higher, it deleted its own pods instead.
 */
import { afterEach, expect, it } from "vitest";
import { namesOf, pod, referenceTo, startSmallCluster, VICTIM, workload } from "./cluster.ts";
import type { Reference, SmallCluster } from "./cluster.ts";

const PARTIAL: readonly { readonly name: string; readonly change: Partial<Reference> }[] = [
  { name: "another built-in kind", change: { kind: "ReplicationController", apiVersion: "v1" } },
  { name: "a custom resource's kind", change: { kind: "Rollout", apiVersion: "example.com/v1" } },
  { name: "another name", change: { name: "web2" } },
  { name: "a name in upper case", change: { name: "WEB" } },
  { name: "another uid", change: { uid: "00000000-0000-4000-8000-000000000000" } },
];

let cluster: SmallCluster;
afterEach(() => cluster.stop());

it.each(PARTIAL)(
  "pods whose owner reference matches a ReplicaSet except for $name belong to no owner and enqueue no key",
  async ({ change }) => {
    cluster = await startSmallCluster();
    const rs = await cluster.post(VICTIM, "replicasets", workload("web", 3));
    await cluster.rest();
    const own = namesOf(await cluster.pods(VICTIM));
    const [writes, syncs] = [cluster.writes().length, cluster.syncs().length];

    const names = ["p-1", "p-2", "p-3", "p-4", "p-5", "p-6"];
    for (const name of names) await cluster.post(VICTIM, "pods", pod(name, { ...referenceTo("ReplicaSet", rs), ...change }));
    await cluster.rest();
    expect(cluster.syncs().slice(syncs)).toEqual([]);
    expect(cluster.writes().slice(writes)).toEqual([]);

    const all = namesOf(await cluster.pods(VICTIM));
    expect(all).toHaveLength(own.length + names.length);
    await cluster.mergePatch(VICTIM, "replicasets", "web", { metadata: { labels: { everyday: "change" } } });
    await cluster.rest();
    expect(namesOf(await cluster.pods(VICTIM))).toEqual(all);
    expect(await cluster.get(VICTIM, "replicasets", "web")).toMatchObject({ status: { replicas: 3, readyReplicas: 3 } });
  },
);
