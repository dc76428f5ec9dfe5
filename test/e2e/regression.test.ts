/**
 * On a real control plane: etcd is restored without advancing its revision, under a running system. All watches are then at future
 * revisions, and the API server sends no event until it reaches them (kubernetes#107457).
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, measured, OWN_NAMESPACE, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";

const MERGE = "application/merge-patch+json";
/**
 * Number of writes; more than the API server makes until our watches are open again, so that it does not reach the lost revisions by
 * itself.
 */
const LOST_WRITES = 600;
/** Informer T52. */
const PROBE_MS_MAX = 160_000;
const labels = { app: "web" };
const PATH = "/apis/apps/v1/namespaces/shop/deployments/web";

interface Deployment {
  readonly metadata: { readonly resourceVersion: string; readonly generation: number; readonly labels?: Readonly<Record<string, string>> };
  readonly status: { readonly replicas?: number; readonly availableReplicas?: number; readonly observedGeneration?: number };
}

await whereRealPartsAre("a history that goes back, on a real control plane", () => {
  describe("on a real control plane", () => {
    let cluster: Cluster;
    let dev: Running;
    beforeAll(async () => {
      // Runs without upstream's scheduler and garbage collector, which would be stuck in the same way; our components must not be.
      cluster = await startCluster({ machines: false, garbageCollection: false });
      dev = await startDev(cluster, "--nodes", "2", "--bind-pods");
    });
    afterAll(async () => {
      await dev?.stop();
      await cluster?.stop();
    });

    const uids = async (): Promise<readonly string[]> => {
      const pods = await cluster.list<{ readonly metadata: { readonly uid: string } }>("/api/v1/namespaces/shop/pods");
      return pods.map(({ metadata }) => metadata.uid).toSorted();
    };
    const settled = (replicas: number, timeoutMs?: number): Promise<Deployment> => {
      const look = async (): Promise<Deployment | false | undefined> => {
        const object = await cluster.get<Deployment>(PATH);
        const { replicas: count, availableReplicas, observedGeneration } = object?.status ?? {};
        return count === replicas && availableReplicas === replicas && observedGeneration === object?.metadata.generation && object;
      };
      return eventually(`the Deployment has ${replicas} available`, look, timeoutMs);
    };
    const fence = async (): Promise<number> => {
      const lease = `/apis/coordination.k8s.io/v1/namespaces/${OWN_NAMESPACE}/leases`;
      const [first] = await cluster.list<Deployment>(lease);
      return Number(first?.metadata.resourceVersion);
    };

    it("[informer T52] [informer T52b] continues after etcd was restored to an older revision", async () => {
      await cluster.kubectl("create", "namespace", "shop");
      await cluster.kubectl("create", "configmap", "clock", "-n", "shop");
      await cluster.apply({
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "web", namespace: "shop" },
        spec: {
          replicas: 3,
          selector: { matchLabels: labels },
          template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
        },
      });
      const before = await settled(3);
      const own = await uids();
      const snapshot = await cluster.plane.snapshotEtcd();

      await cluster.kubectl("scale", "deployment/web", "-n", "shop", "--replicas=5");
      await settled(5);
      await cluster.kubectl("label", "deployment/web", "-n", "shop", "lost=label");
      for (let i = 0; i < LOST_WRITES; i++)
        await cluster.client.request("PATCH", "/api/v1/namespaces/shop/configmaps/clock", { data: { time: String(i) } }, MERGE);
      await cluster.kubectl("label", "deployment/web", "-n", "shop", "later=label");
      const lost = await settled(5);
      const lostFence = await eventually("the Lease was renewed in what gets lost", async () => {
        const renewed = await fence();
        return renewed > Number(lost.metadata.resourceVersion) && renewed;
      });

      const from = performance.now();
      await cluster.plane.restoreEtcd(snapshot, { bumpRevision: 0 });
      const restored = await eventually("the restored Deployment", () => cluster.get<Deployment>(PATH));
      expect(restored.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
      const at = performance.now();
      // A leader that has lost its Lease through the restore finds another leader's epoch, and replaces that epoch after 60 s.
      await dev.line(" over=", PROBE_MS_MAX);
      const noticed = performance.now();
      expect(await fence()).toBeLessThan(lostFence);
      await settled(3);
      expect(await uids()).toEqual(own);

      await cluster.kubectl("scale", "deployment/web", "-n", "shop", "--replicas=4");
      const { metadata } = await settled(4, PROBE_MS_MAX);
      measured(
        `etcd restored in ${seconds(at - from)}, noticed ${seconds(noticed - at)} later, scaled and settled ${seconds(performance.now() - noticed)} after that`,
      );
      // the server has not reached the lost revisions
      expect(Number(metadata.resourceVersion)).toBeLessThan(Number(lost.metadata.resourceVersion));
      const four = await uids();
      expect(four).toHaveLength(4);
      expect(four).toEqual(expect.arrayContaining([...own]));
      await cluster.kubectl("set", "image", "deployment/web", "main=shop:2", "-n", "shop");
      await cluster.rolledOut("shop", "web");
    });
  });
});

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
