/** Would catch: a listed pod without running containers, an omitted one, mixed containers of two pods, and another client's containers. */
import { expect, it } from "vitest";

import { runningPods } from "../../../../shared/node-agent/server/running-pods.ts";
import type { Container, PodSandbox } from "../../../../shared/node-agent/ports/cri-types.ts";

const labelsOf = (pod: string, container?: string): Readonly<Record<string, string>> => ({
  "io.kubernetes.pod.uid": `uid-${pod}`,
  "io.kubernetes.pod.name": pod,
  "io.kubernetes.pod.namespace": "shop",
  ...(container !== undefined && { "io.kubernetes.container.name": container }),
});
const container = (pod: string, name: string): Container => ({
  ...{ id: `${pod}-${name}`, podSandboxId: pod, metadata: { name, attempt: 0 }, image: `image-of-${name}`, imageRef: "" },
  ...{ state: "CONTAINER_RUNNING", createdAtMs: 1, labels: labelsOf(pod, name), annotations: {} },
});
const sandbox = (pod: string, labels = labelsOf(pod)): PodSandbox => ({
  ...{ id: pod, metadata: { name: pod, namespace: "shop", uid: `uid-${pod}`, attempt: 0 }, state: "SANDBOX_READY" },
  ...{ createdAtMs: 1, labels, annotations: {} },
});

it("[node-agent 306] lists the runtime's running pods with their containers, including pods without containers", async () => {
  const asked: unknown[] = [];
  const text = await runningPods({
    listPodSandbox: async (filter) => {
      asked.push(filter);
      return [sandbox("web"), sandbox("new"), sandbox("foreign", {})];
    },
    listContainers: async (filter) => {
      asked.push(filter);
      return [container("web", "main"), container("old", "last"), container("web", "side"), { ...container("x", "y"), labels: {} }];
    },
  });
  const named = (name: string): object => ({ name, namespace: "shop", uid: `uid-${name}` });
  const of = (name: string): object => ({ name, image: `image-of-${name}`, resources: {} });
  expect(asked).toEqual([{ state: "SANDBOX_READY" }, { state: "CONTAINER_RUNNING" }]);
  expect(JSON.parse(text)).toEqual({
    kind: "PodList",
    apiVersion: "v1",
    metadata: {},
    items: [
      { metadata: named("web"), spec: { containers: [of("main"), of("side")] }, status: {} },
      { metadata: named("new"), spec: { containers: null }, status: {} },
      { metadata: named("old"), spec: { containers: [of("last")] }, status: {} },
    ],
  });
});
