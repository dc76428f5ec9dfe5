// 4. A controller of your own is a definition and a function: what the cluster has goes in, what should exist comes out. These five are in
//    the folders here. `decide` calls the function alone; `world` is an in-memory cluster, in which time passes only when a test says so.
import { expect, test } from "vitest";
import { Deployment, Namespace, NetworkPolicy, Pod, ResourceQuota, Secret, Service } from "@deltaloop/sdk/kinds";
import { decide, world } from "@deltaloop/test-kit";
import type { World } from "@deltaloop/test-kit";
import { podJanitor } from "./pod-janitor/pod-janitor.ts";
import { pullSecret } from "./pull-secret/pull-secret.ts";
import { scheduledScaler } from "./scheduled-scaler/scheduled-scaler.ts";
import { teamGuard } from "./team-guard/team-guard.ts";
import { Website, website } from "./website/website.ts";

const now = new Date("2026-03-01T12:00:00Z");

test("a Website gets a Deployment and a Service, and its status follows the Deployment", async () => {
  const object = { metadata: { name: "a", namespace: "shop", generation: 3 }, spec: { image: "nginx", replicas: 2 } };
  const deployment = Deployment({ metadata: { name: "a" }, status: { readyReplicas: 2 } });
  expect(await decide(website, { object, owned: [deployment], now })).toEqual({
    apply: [
      {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: "a" },
        spec: {
          replicas: 2,
          selector: { matchLabels: { app: "a" } },
          template: { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "web", image: "nginx" }] } },
        },
      },
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: { name: "a" },
        spec: { selector: { app: "a" }, ports: [{ port: 80, targetPort: 8080 }] },
      },
    ],
    status: {
      ready: 2,
      conditions: [
        {
          type: "Ready",
          status: "True",
          reason: "Replicas",
          message: "2/2",
          lastTransitionTime: "2026-03-01T12:00:00Z",
          observedGeneration: 3,
        },
      ],
    },
  });
});

test("a team's namespace gets a NetworkPolicy and a ResourceQuota", async () => {
  const object = { metadata: { name: "shop", labels: { "example.com/team": "a" } } };
  expect(await decide(teamGuard, { object })).toMatchObject({
    apply: [
      { kind: "NetworkPolicy", metadata: { name: "deny", namespace: "shop" } },
      { kind: "ResourceQuota", metadata: { name: "team", namespace: "shop" } },
    ],
  });
});

test("a Secret is copied unchanged, and its copies are kept while the original is missing", async () => {
  const object = { metadata: { name: "shop", labels: { "example.com/pulls": "a" } } };
  const [type, data] = ["kubernetes.io/dockerconfigjson", { ".dockerconfigjson": "e30=" }];
  const secret = Secret({ metadata: { name: "pull", namespace: "registry" }, type, data });
  expect(await decide(pullSecret, { object, live: [secret] })).toEqual({
    apply: [{ apiVersion: "v1", kind: "Secret", metadata: { name: "pull", namespace: "shop" }, type, data }],
  });
  expect(await decide(pullSecret, { object })).toEqual({ again: "5m" });
});

test("scales a Deployment to the size that its schedule annotation lists for the current time", async () => {
  const annotations = { "example.com/replicas": "07:00=10 20:00=2" };
  expect(await decide(scheduledScaler, { object: { metadata: { name: "a", annotations } }, now })).toEqual({
    self: { spec: { replicas: 10 } },
    again: new Date("2026-03-01T20:00:00Z"),
  });
  const mistyped = { metadata: { name: "a", annotations: { "example.com/replicas": "noon=3" } } };
  await expect(decide(scheduledScaler, { object: mistyped })).rejects.toThrow("takes times");
});

test("a pod is deleted an hour after its end", async () => {
  const ended = (finishedAt: string) => ({
    metadata: { name: "a", creationTimestamp: "2026-03-01T09:00:00Z" },
    status: { phase: "Failed", containerStatuses: [{ state: { terminated: { finishedAt } } }] },
  });
  expect(await decide(podJanitor, { object: ended("2026-03-01T11:00:00Z"), now })).toEqual({ remove: true });
  const object = ended("2026-03-01T11:00:01Z");
  expect(await decide(podJanitor, { object, now })).toEqual({ again: new Date("2026-03-01T12:00:01Z") });
});

const site = Website({ metadata: { name: "a", namespace: "shop" }, spec: { image: "nginx", replicas: 2 } });

test("in a cluster, a Website becomes ready, and the size of its Deployment is restored when another client changes it", async () => {
  const w = await world({ controllers: [website] });
  await w.apply(site);
  await w.settle();
  expect(w.get(Website, "shop", "a")?.status?.ready).toBe(2);
  await w.edit(Deployment, "shop", "a", { spec: { replicas: 9 } });
  await w.settle();
  expect(w.get(Deployment, "shop", "a")?.spec?.replicas).toBe(2);
  expect(w.writes().map(({ what, why }) => `${what}: ${why}`)).toContain("apply Deployment shop/a: changed since the last write");
  await w.delete(Website, "shop", "a");
  await w.settle();
  expect([await w.list(Deployment), await w.list(Service)]).toEqual([[], []]);
});

test("in a cluster, the quota and policy of a namespace come and go with its label", async () => {
  const w = await world({ controllers: [teamGuard] });
  await w.apply(Namespace({ metadata: { name: "shop", labels: { "example.com/team": "a" } } }));
  await w.settle();
  expect([w.get(NetworkPolicy, "shop", "deny"), w.get(ResourceQuota, "shop", "team")]).toEqual([expect.anything(), expect.anything()]);
  await w.edit(Namespace, "", "shop", { metadata: { labels: { "example.com/team": null } } });
  await w.settle();
  expect([w.get(NetworkPolicy, "shop", "deny"), w.get(ResourceQuota, "shop", "team")]).toEqual([undefined, undefined]);
});

const source = (data: Readonly<Record<string, string>>) => Secret({ metadata: { name: "pull", namespace: "registry" }, data });

test("in a cluster, the copies of a Secret follow it", async () => {
  const w = await world({ controllers: [pullSecret] });
  await w.apply(source({ a: "eA==", b: "eQ==" }));
  await w.apply(Namespace({ metadata: { name: "shop", labels: { "example.com/pulls": "a" } } }));
  await w.settle();
  await w.apply(source({ a: "eg==" }));
  await w.settle();
  expect(w.get(Secret, "shop", "pull")?.data).toEqual({ a: "eg==" });
});

const labels = { app: "a" };
const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
const annotations = { "example.com/replicas": "07:00=3 20:00=1" };
const scaled = Deployment({
  metadata: { name: "a", namespace: "shop", annotations },
  spec: { selector: { matchLabels: labels }, template },
});

test("in a cluster, a Deployment is scaled in the evening, and keeps its size when it has no plan any more", async () => {
  const w = await world({ controllers: [scheduledScaler], now });
  await w.apply(scaled);
  await w.settle();
  const replicas = () => w.get(Deployment, "shop", "a")?.spec?.replicas;
  expect(replicas()).toBe(3);
  await w.advance("8h");
  expect(replicas()).toBe(1);
  await w.edit(Deployment, "shop", "a", { spec: { replicas: 5 }, metadata: { annotations: { "example.com/replicas": null } } });
  await w.advance("1d");
  expect(replicas()).toBe(5);
});

const pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "done", namespace: "shop" },
  spec: template.spec,
  status: { phase: "Failed" },
};

test("in a cluster, an ended pod is deleted after an hour", async () => {
  const w = await world({ controllers: [podJanitor], builtIn: false });
  await w.apply(pod);
  await w.advance("59m");
  expect(w.get(Pod, "shop", "done")).toBeDefined();
  await w.advance("2m");
  expect(w.get(Pod, "shop", "done")).toBeUndefined();
});

test.each([
  { controller: website, objects: [site] },
  { controller: teamGuard, objects: [Namespace({ metadata: { name: "shop", labels: { "example.com/team": "a" } } })] },
  { controller: pullSecret, objects: [source({}), Namespace({ metadata: { name: "shop", labels: { "example.com/pulls": "a" } } })] },
  { controller: scheduledScaler, objects: [scaled] },
  { controller: podJanitor, objects: [pod], wait: "2h" as const },
])("$controller.name ends the same, wherever its process dies", async ({ controller, objects, wait }) => {
  const w = await world({ controllers: [controller], builtIn: false });
  const scenario = async (each: World): Promise<void> => {
    for (const object of objects) await each.apply(object);
    if (wait) await each.advance(wait);
  };
  await expect(w.everyCrash(scenario)).resolves.toBeUndefined();
});
