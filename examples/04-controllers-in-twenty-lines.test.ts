// 4. A controller of your own is a definition and a function: what the cluster has goes in, what should exist comes out. These five are in
//    the folders here, and no cluster is needed to call them.
import { expect, test } from "vitest";
import type { Controller } from "@deltaloop/sdk";
import { createContext } from "@deltaloop/sdk/context";
import type { Snapshot, VisibleObject } from "@deltaloop/sdk/context";
import { podJanitor } from "./pod-janitor/pod-janitor.ts";
import { pullSecret } from "./pull-secret/pull-secret.ts";
import { scheduledScaler } from "./scheduled-scaler/scheduled-scaler.ts";
import { teamGuard } from "./team-guard/team-guard.ts";
import { website } from "./website/website.ts";

const NOON = new Date("2026-03-01T12:00:00Z");

async function decide(controller: Controller, observed: Partial<Snapshot> & Pick<Snapshot, "object">, live?: VisibleObject) {
  const snapshot = { owned: [], watched: [], ...observed };
  const surroundings = {
    now: NOON,
    signal: new AbortController().signal,
    log: { info: () => undefined },
    live: () => Promise.resolve(live),
  };
  return await controller.sync(createContext(controller.definition, snapshot, surroundings));
}

test("a Website gets a Deployment and a Service, and its status follows the Deployment", async () => {
  const object = { apiVersion: "demo.example.com/v1", kind: "Website", metadata: { name: "a", namespace: "shop", generation: 3 } };
  const spec = { image: "nginx", replicas: 2 };
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "a", namespace: "shop" },
    status: { readyReplicas: 2 },
  };
  expect(await decide(website, { object: { ...object, spec }, owned: [deployment] })).toEqual({
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
  const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels: { "example.com/team": "a" } } };
  expect(await decide(teamGuard, { object })).toMatchObject({
    apply: [
      { kind: "NetworkPolicy", metadata: { name: "deny", namespace: "shop" } },
      { kind: "ResourceQuota", metadata: { name: "team", namespace: "shop" } },
    ],
  });
});

test("a Secret is copied unchanged, and its copies are kept while the original is missing", async () => {
  const object = { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } };
  const [type, data] = ["kubernetes.io/dockerconfigjson", { ".dockerconfigjson": "e30=" }];
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "pull", namespace: "registry" }, type, data };
  expect(await decide(pullSecret, { object }, secret)).toEqual({
    apply: [{ apiVersion: "v1", kind: "Secret", metadata: { name: "pull", namespace: "shop" }, type, data }],
  });
  expect(await decide(pullSecret, { object })).toEqual({ again: "5m" });
});

test("scales a Deployment to the size that its schedule annotation lists for the current time", async () => {
  const annotations = { "example.com/replicas": "07:00=10 20:00=2" };
  const object = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "a", namespace: "shop", annotations } };
  expect(await decide(scheduledScaler, { object })).toEqual({
    self: { spec: { replicas: 10 } },
    again: new Date("2026-03-01T20:00:00Z"),
  });
  await expect(decide(scheduledScaler, { object: { ...object, metadata: { name: "a" } } })).rejects.toThrow("takes times");
});

test("a pod is deleted an hour after its end", async () => {
  const metadata = { name: "a", namespace: "shop", creationTimestamp: "2026-03-01T09:00:00Z" };
  const pod = (finishedAt: string) => ({
    object: { apiVersion: "v1", kind: "Pod", metadata, status: { containerStatuses: [{ state: { terminated: { finishedAt } } }] } },
  });
  expect(await decide(podJanitor, pod("2026-03-01T11:00:00Z"))).toEqual({ remove: true });
  expect(await decide(podJanitor, pod("2026-03-01T11:00:01Z"))).toEqual({ again: new Date("2026-03-01T12:00:01Z") });
});
