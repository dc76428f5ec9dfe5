/** ReplicationControllers, quotas, and user requests through subresources and collections (sizes, statuses), on a real control plane. */
import { setTimeout as sleep } from "node:timers/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { eventually, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { lineOf } from "../../shared/kube/client/kube.ts";

interface Owner {
  readonly metadata: { readonly name: string; readonly uid: string; readonly generation?: number; readonly deletionTimestamp?: string };
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

/** The kinds that own pods, as paths and as kubectl names. */
const KINDS = {
  ReplicationController: {
    path: (namespace: string) => `/api/v1/namespaces/${namespace}/replicationcontrollers/web`,
    short: "rc",
    make: controller,
  },
  ReplicaSet: { path: (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/replicasets/web`, short: "rs", make: replicaSet },
} as const;
const MERGE = "application/merge-patch+json";
/** Time in ms until the API server calls a newly configured webhook. */
const WEBHOOK_KNOWN_MS = 3_000;
/** Limit in ms, well below the 20 s timeout of an unanswered call. */
const WEBHOOK_BACK_MS_MAX = 12_000;

/** A Deployment in its own namespace. */
function deployment(namespace: string, replicas: number): object {
  return { ...replicaSet(namespace, replicas), kind: "Deployment" };
}
const WORKLOADS = {
  ReplicaSet: { path: "/apis/apps/v1", resource: "replicasets", make: replicaSet },
  Deployment: { path: "/apis/apps/v1", resource: "deployments", make: deployment },
} as const;

/** Limit in ms, as in upstream's own e2e test. */
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

    it("adopts 520 unowned pods that are created just before their ReplicaSet, and creates none", { timeout: 180_000 }, async () => {
      const namespace = "overtaken";
      await cluster.kubectl("create", "namespace", namespace);
      const path = `/api/v1/namespaces/${namespace}/pods`;
      const bare = (i: number): object => ({ metadata: { name: `bare-${i}`, labels }, spec: template.spec });
      const names = Array.from({ length: 520 }, (_, i) => i);
      for (let at = 0; at < names.length; at += 130)
        await Promise.all(names.slice(at, at + 130).map((i) => cluster.client.request("POST", path, bare(i))));
      await cluster.client.request("POST", `/apis/apps/v1/namespaces/${namespace}/replicasets`, replicaSet(namespace, names.length));
      await eventually(
        "all adopted",
        async () => {
          const { status } = await read("ReplicaSet", namespace);
          return status.replicas === names.length && status.observedGeneration === 1;
        },
        60_000,
      );
      const made = (await cluster.audit()).filter(
        ({ verb, objectRef, userAgent }) =>
          verb === "create" && objectRef?.resource === "pods" && objectRef.namespace === namespace && userAgent?.startsWith("deltaloop"),
      );
      measured(`a ReplicaSet that overtakes its 520 pods: ${made.length} pods too many`);
      expect(made).toEqual([]);
      expect((await pods(namespace)).length).toBe(names.length);
    });

    it.each([
      { operation: "CREATE", replicas: 3, wanted: 3 },
      { operation: "DELETE", replicas: 3, wanted: 1 },
    ])(
      "[replicaset 126] retries each $operation of a pod while an admission webhook is unavailable, and succeeds once it is available",
      async ({ operation, replicas, wanted }) => {
        const namespace = `webhook-${operation.toLowerCase()}`;
        await cluster.kubectl("create", "namespace", namespace);
        const path = KINDS.ReplicaSet.path(namespace);
        const count = async (): Promise<number> => (await cluster.list<Pod>(`/api/v1/namespaces/${namespace}/pods`)).length;
        if (operation === "DELETE") {
          await cluster.apply(replicaSet(namespace, replicas));
          await eventually("its pods are there", async () => (await count()) === replicas);
        }
        const name = "away.example.com";
        await cluster.apply({
          apiVersion: "admissionregistration.k8s.io/v1",
          kind: "ValidatingWebhookConfiguration",
          metadata: { name },
          webhooks: [
            {
              name,
              clientConfig: { url: "https://127.0.0.1:1/" },
              rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["pods"], operations: [operation] }],
              namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
              failurePolicy: "Fail",
              sideEffects: "None",
              admissionReviewVersions: ["v1"],
            },
          ],
        });
        await sleep(WEBHOOK_KNOWN_MS);
        await cluster.apply(replicaSet(namespace, wanted));
        await eventually("the ReplicaSet says that it was refused", async () =>
          (await cluster.get<Owner>(path))?.status.conditions?.some(
            ({ type, message = "" }) => type === "ReplicaFailure" && message.includes("failed calling webhook"),
          ),
        );
        await cluster.kubectl("delete", "validatingwebhookconfiguration", name);
        const start = performance.now();
        await eventually("it is done", async () => (await count()) === wanted, WEBHOOK_BACK_MS_MAX);
        measured(`${operation}: done ${((performance.now() - start) / 1_000).toFixed(1)} s after the webhook was gone`);
      },
    );

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

    const collection = (namespace: string, resource: string): string =>
      `${resource === "replicationcontrollers" ? "/api/v1" : "/apis/apps/v1"}/namespaces/${namespace}/${resource}`;
    const statusIs = (path: string, wanted: Partial<Owner["status"]>): Promise<Owner> =>
      eventually(`${path}: ${JSON.stringify(wanted)}`, async () => {
        const owner = await cluster.get<Owner>(path);
        const isWanted = Object.entries(wanted).every(([field, value]) => (owner?.status[field as keyof typeof wanted] ?? 0) === value);
        return isWanted && owner?.status.observedGeneration === owner?.metadata.generation && owner;
      });

    for (const [kind, rows] of [
      ["ReplicaSet", "[replicaset 106] [replicaset 114]"],
      ["Deployment", "[deployment T110] [deployment T116]"],
    ] as const)
      it(`${rows} reads the /scale of a ${kind}, and scales it by PUT and PATCH`, async () => {
        const { resource, make } = WORKLOADS[kind];
        const namespace = `scaled-${resource}`;
        await cluster.kubectl("create", "namespace", namespace);
        await cluster.apply(make(namespace, 1));
        const path = `${collection(namespace, resource)}/web`;
        await statusIs(path, { replicas: 1 });
        const scale = await cluster.client.request("GET", `${path}/scale`);
        expect(scale).toMatchObject({ kind: "Scale", spec: { replicas: 1 }, status: { replicas: 1, selector: "app=web" } });
        const { resourceVersion: _version, ...metadata } = scale["metadata"] as Readonly<Record<string, unknown>>;
        await cluster.client.request("PUT", `${path}/scale`, { ...scale, metadata, spec: { replicas: 2 } });
        expect((await statusIs(path, { replicas: 2 })).spec.replicas).toBe(2);
        for (const replicas of [4, 3, 0]) {
          await cluster.client.request("PATCH", `${path}/scale`, { spec: { replicas } }, MERGE);
          expect((await statusIs(path, { replicas })).spec.replicas).toBe(replicas);
        }
      });

    it("[replicaset 115] a replaced and patched ReplicaSet has the desired number of pods, and creates new ones from the new template", async () => {
      await cluster.kubectl("create", "namespace", "patched");
      await cluster.apply(replicaSet("patched", 1));
      const path = `${collection("patched", "replicasets")}/web`;
      const { spec } = await statusIs(path, { readyReplicas: 1 });
      const live = await cluster.client.request("GET", path);
      await cluster.client.request("PUT", path, { ...live, spec: { ...spec, replicas: 2 } });
      await statusIs(path, { readyReplicas: 2 });
      const podSpec = { terminationGracePeriodSeconds: 0, containers: [{ name: "main", image: "shop:2" }] };
      const patch = { metadata: { labels: { "test-rs": "patched" } }, spec: { replicas: 3, template: { spec: podSpec } } };
      await cluster.client.request("PATCH", path, patch, MERGE);
      const patched = await statusIs(path, { readyReplicas: 3, availableReplicas: 3 });
      expect(patched).toMatchObject({ metadata: { labels: { "test-rs": "patched" } }, spec: { template: { spec: podSpec } } });
      expect((await pods("patched")).map((pod) => pod.spec.containers[0]?.image).toSorted()).toEqual(["shop:1", "shop:1", "shop:2"]);
    });

    it("[replicaset 116] lists and deletes ReplicaSets as a collection, and deleted ReplicaSets create no further pods", async () => {
      const chosen = { labelSelector: "e2e=rs" };
      await cluster.kubectl("create", "namespace", "collected");
      const one = replicaSet("collected", 2) as { readonly metadata: object };
      await cluster.apply({ ...one, metadata: { ...one.metadata, labels: { e2e: "rs" } } });
      const all = collection("collected", "replicasets");
      await statusIs(`${all}/web`, { availableReplicas: 2 });
      expect((await cluster.client.list(all, chosen)).items).toHaveLength(1);
      await cluster.client.request("DELETE", `${all}?labelSelector=${encodeURIComponent(chosen.labelSelector)}`);
      expect((await cluster.client.list(all, chosen)).items).toEqual([]);
      await eventually("no pod is left", async () => (await pods("collected")).length === 0);
      const created = (await cluster.audit()).filter(
        ({ verb, objectRef: { namespace, resource, subresource } = {} }) =>
          verb === "create" && namespace === "collected" && resource === "pods" && subresource === undefined,
      );
      expect(created).toHaveLength(2);
    });

    it("[replicaset 117] keeps conditions that other clients PUT and PATCH into a ReplicaSet's status", async () => {
      await cluster.kubectl("create", "namespace", "conditioned");
      await cluster.apply(replicaSet("conditioned", 1));
      const path = `${collection("conditioned", "replicasets")}/web`;
      const told = async (replicas: number): Promise<readonly unknown[]> =>
        ((await statusIs(path, { availableReplicas: replicas })).status.conditions ?? []).map(({ type }) => type);
      await told(1);
      const condition = (type: string): object => ({ type, status: "True", reason: "E2E", message: "Set from an e2e test" });
      // Retries, because another client may write in between.
      await eventually("the status is put", async () => {
        const live = await cluster.client.request("GET", path);
        const status = { ...(live["status"] as object), conditions: [condition("StatusUpdate")] };
        return await cluster.client.request("PUT", `${path}/status`, { ...live, status }).catch(() => undefined);
      });
      await cluster.client.request("PATCH", path, { spec: { replicas: 2 } }, MERGE);
      expect(await told(2)).toEqual(["StatusUpdate"]);
      await cluster.client.request("PATCH", `${path}/status`, { status: { conditions: [condition("StatusPatched")] } }, MERGE);
      await cluster.client.request("PATCH", path, { spec: { replicas: 1 } }, MERGE);
      expect(await told(1)).toEqual(["StatusPatched"]);
    });

    it("[replicaset 98] [deployment T102] selectors are immutable", async () => {
      await cluster.kubectl("create", "namespace", "immutable");
      for (const { resource, make } of Object.values(WORKLOADS)) {
        await cluster.apply(make("immutable", 0));
        const other = { app: "web", other: "1" };
        const spec = { selector: { matchLabels: other }, template: { metadata: { labels: other } } };
        const refused = cluster.client.request("PATCH", `${collection("immutable", resource)}/web`, { spec }, MERGE);
        await expect(refused).rejects.toThrow(/Invalid value: .*field is immutable/);
      }
    });

    it("[replicaset 109] a ReplicaSet deleted without options gets no further finalizer, and its pods are not recreated", async () => {
      await cluster.kubectl("create", "namespace", "finalized");
      const one = replicaSet("finalized", 1) as { readonly metadata: object };
      await cluster.apply({ ...one, metadata: { ...one.metadata, finalizers: ["example.com/held"] } });
      const path = `${collection("finalized", "replicasets")}/web`;
      await statusIs(path, { availableReplicas: 1 });
      await cluster.client.request("DELETE", path);
      const deleted = await cluster.get<{ readonly metadata: { readonly deletionTimestamp?: string; readonly finalizers?: unknown } }>(
        path,
      );
      expect(deleted?.metadata).toMatchObject({ deletionTimestamp: expect.any(String), finalizers: ["example.com/held"] });
      const [pod] = await pods("finalized");
      await cluster.kubectl("delete", "pod", pod?.metadata.name ?? "", "-n", "finalized", "--timeout=30s");
      await statusIs(path, { replicas: 0 });
      expect(await pods("finalized")).toEqual([]);
      await cluster.client.request("PATCH", path, { metadata: { finalizers: null } }, MERGE);
    });

    it("[replicaset 123] a watch shows the lifecycle of a ReplicationController, whose status is corrected after another client's write", async () => {
      await cluster.kubectl("create", "namespace", "lived");
      const seen = await watched("lived");
      const all = collection("lived", "replicationcontrollers");
      const [path, status] = [`${all}/web`, `${all}/web/status`];
      await cluster.apply(controller("lived", 1));
      await statusIs(path, { readyReplicas: 1 });
      await cluster.client.request("PATCH", path, { metadata: { labels: { "test-rc": "patched" } } }, MERGE);
      await cluster.client.request("PATCH", status, { status: { readyReplicas: 0, availableReplicas: 0 } }, MERGE);
      await statusIs(path, { readyReplicas: 1, availableReplicas: 1 });
      await cluster.client.request("PATCH", `${path}/scale`, { spec: { replicas: 2 } }, MERGE);
      await statusIs(path, { readyReplicas: 2 });
      await eventually("the status is put", async () => {
        const live = await cluster.client.request("GET", path);
        const wrong = { ...(live["status"] as object), readyReplicas: 1, availableReplicas: 1 };
        return await cluster.client.request("PUT", status, { ...live, status: wrong }).catch(() => undefined);
      });
      await statusIs(path, { readyReplicas: 2, availableReplicas: 2 });
      expect((await cluster.client.list(all, { labelSelector: "test-rc=patched" })).items).toHaveLength(1);
      await cluster.client.request("DELETE", `${all}?labelSelector=${encodeURIComponent("test-rc=patched")}`);
      await eventually("it is gone", () => seen.events.at(-1)?.type === "DELETED");
      await seen.stop();
      expect([seen.events[0]?.type, ...new Set(seen.events.slice(1, -1).map(({ type }) => type))]).toEqual(["ADDED", "MODIFIED"]);
      // Counts only pods without a deletionTimestamp. After the owner's deletion its pods terminate independently, so whether the count
      // changes before the owner is deleted is a race with the garbage collector.
      const lived = seen.events.filter(({ object }) => object.metadata.deletionTimestamp === undefined);
      const ready = lived.map(({ object }) => object.status.readyReplicas ?? 0);
      expect(ready.filter((count, i) => count !== ready[i - 1])).toEqual([0, 1, 0, 1, 2, 1, 2]);
    });

    /** Returns the watch events of the namespace's ReplicationControllers. */
    const watched = async (
      namespace: string,
    ): Promise<{ readonly events: readonly { readonly type: string; readonly object: Owner }[]; stop(): Promise<void> }> => {
      const ending = new AbortController();
      const events: { readonly type: string; readonly object: Owner }[] = [];
      const query = {
        fieldSelector: `metadata.namespace=${namespace}`,
        resourceVersion: "0",
        allowWatchBookmarks: false,
        timeoutSeconds: 300,
      };
      const follow = async (): Promise<void> => {
        for await (const lines of cluster.client.watch("replicationcontrollers", query, ending.signal))
          events.push(...lines.map((line) => JSON.parse(lineOf(line)) as { readonly type: string; readonly object: Owner }));
      };
      const ended = follow().catch(() => undefined);
      return {
        events,
        async stop() {
          ending.abort();
          await ended;
        },
      };
    };

    for (const [kind, row] of [
      ["ReplicationController", "[replicaset 120]"],
      ["ReplicaSet", "[replicaset 112]"],
    ] as const) {
      it(`${row} shows a ${kind}'s ReplicaFailure while the quota refuses a pod, and removes it when the pod is no longer desired`, async () => {
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
