/**
 * Tenants and restores on a real control plane: a tenant's pods reference another namespace's ReplicaSet, without upstream's garbage
 * collector, which would eventually delete them and turn the test into a race; and etcd is restored while the system runs.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";

const MERGE = "application/merge-patch+json";
const BUMP = 1_000_000_000;
/**
 * Limit in ms: scheduler, nodes and our watcher list everything again, and a gap that the restart left in a lane may last a minute
 * (informer §19).
 */
const AFTER_RESTORE_MS = 90_000;
const labels = { app: "web" };
const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };

interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly status: { readonly phase?: string };
}

interface Workload {
  readonly metadata: { readonly uid: string; readonly resourceVersion: string; readonly generation: number };
  readonly status: { readonly replicas?: number; readonly availableReplicas?: number; readonly observedGeneration?: number };
}

function workload(kind: "ReplicaSet" | "Deployment", namespace: string): object {
  const spec = { replicas: 3, selector: { matchLabels: labels }, template };
  return { apiVersion: "apps/v1", kind, metadata: { name: "web", namespace }, spec };
}

await whereRealPartsAre("tenants and restores on a real control plane", () => {
  describe("on a real control plane without garbage collector", () => {
    let cluster: Cluster;
    let dev: Running;
    beforeAll(async () => {
      cluster = await startCluster({ garbageCollection: false });
      dev = await startDev(cluster);
    });
    afterAll(async () => {
      await dev?.stop();
      await cluster?.stop();
    });

    const pods = (namespace: string): Promise<readonly Pod[]> => cluster.list<Pod>(`/api/v1/namespaces/${namespace}/pods`);
    const uids = async (namespace: string): Promise<readonly string[]> =>
      (await pods(namespace)).map(({ metadata }) => metadata.uid).toSorted();
    /** Waits until the workload has the desired number of pods, all available, at the newest generation. */
    const settled = (path: string, replicas: number, timeoutMs?: number): Promise<Workload> => {
      const look = async (): Promise<Workload | false | undefined> => {
        const object = await cluster.get<Workload>(path);
        const { replicas: count, availableReplicas, observedGeneration } = object?.status ?? {};
        return count === replicas && availableReplicas === replicas && observedGeneration === object?.metadata.generation && object;
      };
      return eventually(`${path} has ${replicas} available`, look, timeoutMs);
    };

    it("six running pods in another namespace with an owner reference to a ReplicaSet do not count towards its three replicas", async () => {
      await cluster.kubectl("create", "namespace", "victim");
      await cluster.kubectl("create", "namespace", "mallory");
      await cluster.apply(workload("ReplicaSet", "victim"));
      const path = "/apis/apps/v1/namespaces/victim/replicasets/web";
      const { metadata } = await settled(path, 3);
      const own = await uids("victim");
      expect(own).toHaveLength(3);

      const reference = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: metadata.uid, controller: true };
      const bare = (name: string): object => ({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name, namespace: "mallory", labels },
        spec: template.spec,
      });
      await cluster.apply(...Array.from({ length: 6 }, (_, i) => bare(`m-${i}`)));
      await eventually("the tenant's pods run", async () => (await pods("mallory")).every(({ status }) => status.phase === "Running"));
      for (let i = 0; i < 6; i++) {
        const patched = { metadata: { ownerReferences: [reference] } };
        await cluster.client.request("PATCH", `/api/v1/namespaces/mallory/pods/m-${i}`, patched, MERGE);
      }
      const foreign = await uids("mallory");
      await cluster.kubectl("label", "rs/web", "-n", "victim", "everyday=change");
      await cluster.kubectl("scale", "rs/web", "-n", "victim", "--replicas=4");
      await settled(path, 4);

      const now = await uids("victim");
      expect(now).toHaveLength(4);
      expect(now).toEqual(expect.arrayContaining([...own]));
      expect(await uids("mallory")).toEqual(foreign);
      const sent = (await cluster.audit()).filter(
        ({ userAgent, objectRef }) => userAgent?.startsWith("deltaloop/") && objectRef?.namespace === "mallory",
      );
      expect(sent.map(({ verb, requestURI }) => `${verb} ${requestURI}`)).toEqual([]);
    });

    it("continues after etcd was restored with a revision raised by 1,000,000,000", async () => {
      await cluster.kubectl("create", "namespace", "shop");
      await cluster.apply(workload("Deployment", "shop"));
      const path = "/apis/apps/v1/namespaces/shop/deployments/web";
      await settled(path, 3);
      const [before, own] = [await settled(path, 3), await uids("shop")];
      const snapshot = await cluster.plane.snapshotEtcd();

      // The restore discards these changes: afterwards the cache has newer versions, pods and sizes than the cluster.
      await cluster.kubectl("scale", "deployment/web", "-n", "shop", "--replicas=5");
      await settled(path, 5);
      // Waits until the pod is deleted; otherwise its node would terminate the restored pod, which has the same uid.
      await cluster.kubectl("delete", "pod", "-n", "shop", (await pods("shop"))[0]?.metadata.name ?? "");
      await cluster.kubectl("label", "deployment/web", "-n", "shop", "lost=label");
      await settled(path, 5);

      const from = performance.now();
      await cluster.plane.restoreEtcd(snapshot, { bumpRevision: BUMP });
      const restored = await eventually("the restored Deployment", () => cluster.get<Workload>(path));
      expect(restored.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
      const at = performance.now();
      await settled(path, 3);
      expect(await uids("shop")).toEqual(own);

      await cluster.kubectl("scale", "deployment/web", "-n", "shop", "--replicas=4");
      const { metadata } = await settled(path, 4, AFTER_RESTORE_MS);
      measured(`etcd restored in ${seconds(at - from)}, scaled and settled ${seconds(performance.now() - at)} later`);
      expect(Number(metadata.resourceVersion)).toBeGreaterThan(BUMP);
      const four = await uids("shop");
      expect(four).toHaveLength(4);
      expect(four).toEqual(expect.arrayContaining([...own]));
      await cluster.kubectl("set", "image", "deployment/web", "main=shop:2", "-n", "shop");
      await cluster.rolledOut("shop", "web");
      await eventually("only the new pods are left", async () => (await pods("shop")).length === 4);
    });
  });
});

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
