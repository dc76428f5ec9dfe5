/**
 * ReplicationControllers, and quotas, on a real control plane.
 *
 * Catches: a right that the ReplicationController's role lacks; pods that are not upstream's; a ReplicaFailure condition that does
 * not appear when the quota refuses a pod, or stays when it no longer does; a storm of creates against a quota.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";

interface Owner {
  readonly metadata: { readonly name: string; readonly uid: string; readonly generation?: number };
  readonly spec: { readonly replicas: number };
  readonly status: {
    readonly replicas: number;
    readonly fullyLabeledReplicas?: number;
    readonly readyReplicas?: number;
    readonly availableReplicas?: number;
    readonly observedGeneration?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
  };
}

interface Pod {
  readonly metadata: {
    readonly name: string;
    readonly generateName?: string;
    readonly labels?: object;
    readonly ownerReferences?: readonly object[];
  };
  readonly spec: { readonly containers: readonly { readonly image: string }[] };
}

const labels = { app: "web" };
const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };

function controller(namespace: string, replicas: number): object {
  return {
    apiVersion: "v1",
    kind: "ReplicationController",
    metadata: { name: "web", namespace },
    spec: { replicas, selector: labels, template },
  };
}

function replicaSet(namespace: string, replicas: number): object {
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: "web", namespace },
    spec: { replicas, selector: { matchLabels: labels }, template },
  };
}

/** The kinds that own pods, as paths and as kubectl names them. */
const KINDS = {
  ReplicationController: {
    path: (namespace: string) => `/api/v1/namespaces/${namespace}/replicationcontrollers/web`,
    short: "rc",
    make: controller,
  },
  ReplicaSet: { path: (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/replicasets/web`, short: "rs", make: replicaSet },
} as const;
/** Upstream's own e2e test waits for a minute. */
const CONDITION_MS_MAX = 60_000;

await whereRealPartsAre("ReplicationControllers and quotas on a real control plane", () => {
  describe("on a real control plane", () => {
    let cluster: Cluster;
    let dev: Running;
    beforeAll(async () => {
      cluster = await startCluster();
      dev = await startDev(cluster);
    });
    afterAll(async () => {
      await dev?.stop();
      await cluster?.stop();
    });

    const read = async (kind: keyof typeof KINDS, namespace: string): Promise<Owner> => {
      const owner = await cluster.get<Owner>(KINDS[kind].path(namespace));
      if (!owner) throw new Error(`no ${kind} web in ${namespace}`);
      return owner;
    };
    const pods = (namespace: string): Promise<readonly Pod[]> => cluster.list<Pod>(`/api/v1/namespaces/${namespace}/pods`);
    const runs = (namespace: string, replicas: number): Promise<Owner> =>
      eventually(`${replicas} available`, async () => {
        const owner = await read("ReplicationController", namespace);
        const { status } = owner;
        return (
          status.replicas === replicas &&
          (status.availableReplicas ?? 0) === replicas &&
          status.observedGeneration === owner.metadata.generation &&
          owner
        );
      });

    it("[replicaset 124] creates a ReplicationController's pods and follows its size", async () => {
      await cluster.kubectl("create", "namespace", "plain");
      await cluster.apply(controller("plain", 3));
      const { metadata, status } = await runs("plain", 3);
      expect(status).toEqual({ replicas: 3, fullyLabeledReplicas: 3, readyReplicas: 3, availableReplicas: 3, observedGeneration: 1 });
      const reference = {
        apiVersion: "v1",
        kind: "ReplicationController",
        name: "web",
        uid: metadata.uid,
        controller: true,
        blockOwnerDeletion: true,
      };
      for (const pod of await pods("plain")) {
        expect(pod.metadata).toMatchObject({ generateName: "web-", labels, ownerReferences: [reference] });
        expect(pod.metadata.name).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
        expect(pod.spec.containers[0]?.image).toBe("shop:1");
      }
      for (const size of [1, 2, 0]) {
        await cluster.kubectl("scale", "rc/web", "-n", "plain", `--replicas=${size}`);
        await runs("plain", size);
      }
      const events = await cluster.kubectl(
        "get",
        "events",
        "-n",
        "plain",
        "--field-selector=involvedObject.kind=ReplicationController",
        "-o",
        "jsonpath={range .items[*]}{.source.component} {.reason}{'\\n'}{end}",
      );
      expect(new Set(events.trim().split("\n"))).toEqual(
        new Set(["replication-controller SuccessfulCreate", "replication-controller SuccessfulDelete"]),
      );
      await cluster.kubectl("delete", "rc/web", "-n", "plain", "--timeout=30s");
    });

    it("[replicaset 121] [replicaset 122] adopts a matching pod, and releases it when it no longer matches", async () => {
      await cluster.kubectl("create", "namespace", "adopting");
      await cluster.apply({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "bare", namespace: "adopting", labels },
        spec: template.spec,
      });
      await cluster.apply(controller("adopting", 1));
      const owned = async (): Promise<number> =>
        (await cluster.get<Pod>("/api/v1/namespaces/adopting/pods/bare"))?.metadata.ownerReferences?.length ?? 0;
      await eventually("the pod is owned", async () => (await owned()) === 1);
      await runs("adopting", 1);
      expect(await pods("adopting")).toHaveLength(1);
      await cluster.kubectl("label", "pod", "bare", "app=astray", "--overwrite", "-n", "adopting");
      await eventually("the pod is released", async () => (await owned()) === 0);
      await eventually("another one is there", async () => (await pods("adopting")).length === 2);
    });

    for (const [kind, row] of [
      ["ReplicationController", "[replicaset 120]"],
      ["ReplicaSet", "[replicaset 112]"],
    ] as const) {
      it(`${row} shows a ${kind}'s ReplicaFailure while the quota refuses a pod, and no longer when it is not wanted`, async () => {
        const namespace = `quota-${KINDS[kind].short}`;
        const quota = { apiVersion: "v1", kind: "ResourceQuota", metadata: { name: "two", namespace }, spec: { hard: { pods: "2" } } };
        await cluster.kubectl("create", "namespace", namespace);
        await cluster.apply(quota);
        await eventually(
          "the quota counts",
          async () => (await cluster.kubectl("get", "quota", "two", "-n", namespace, "-o", "jsonpath={.status.hard.pods}")) === "2",
        );
        const from = performance.now();
        await cluster.apply(KINDS[kind].make(namespace, 3));
        const failing = await eventually("ReplicaFailure", async () => withFailure(await read(kind, namespace)), CONDITION_MS_MAX);
        const appearedMs = performance.now() - from;
        expect(failing.condition).toMatchObject({ status: "True", reason: "FailedCreate" });
        expect(failing.condition.message).toMatch(
          /^pods "web-[a-z0-9]{5}" is forbidden: exceeded quota: two, requested: pods=1, used: pods=2, limited: pods=2$/,
        );
        await eventually("two pods are counted", async () => (await read(kind, namespace)).status.replicas === 2);
        await sleep(3_000);
        expect(await pods(namespace)).toHaveLength(2);
        const refused = (await cluster.audit()).filter(
          ({ verb, objectRef, responseStatus }) =>
            verb === "create" && objectRef?.namespace === namespace && objectRef.resource === "pods" && responseStatus?.code === 403,
        );
        const scaledAt = performance.now();
        await cluster.kubectl("scale", `${KINDS[kind].short}/web`, "-n", namespace, "--replicas=2");
        const healed = await eventually(
          "no ReplicaFailure",
          async () => {
            const owner = await read(kind, namespace);
            return withFailure(owner) === undefined && owner.status.observedGeneration === owner.metadata.generation && owner;
          },
          CONDITION_MS_MAX,
        );
        measured(
          `${kind}: ReplicaFailure after ${seconds(appearedMs)}, gone ${seconds(performance.now() - scaledAt)} after the scale; ${refused.length} creates refused meanwhile`,
        );
        expect(healed.status.replicas).toBe(2);
        expect(await pods(namespace)).toHaveLength(2);
      });
    }
  });
});

function withFailure(owner: Owner): { readonly condition: NonNullable<Owner["status"]["conditions"]>[number] } | undefined {
  const condition = owner.status.conditions?.find(({ type }) => type === "ReplicaFailure");
  return condition && { condition };
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
