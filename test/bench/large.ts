/**
 * Large workloads on the embedded stack, each on a new stack and without nodes, so that only our time is measured: from the first POST
 * until all objects exist and the statuses report it. Requests are those of functions and appliers to the API server, without Events.
 * test/support/large-laws.ts checks, without a clock, that no step grows with data that it does not read.
 */
import { podTemplate, startStack, until } from "./embedded.ts";
import type { Stack } from "./embedded.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

interface Shape {
  readonly name: string;
  readonly make: (stack: Stack) => Promise<void>;
}

const PODS = 5_000;
const DEPLOYMENTS = 1_000;
const TEMPLATES = 300;
const APPS = "/apis/apps/v1/namespaces/default";

const SHAPES: readonly Shape[] = [
  {
    name: "a ReplicaSet of 5,000 pods",
    async make(stack) {
      await post(stack, "ReplicaSet", "web", PODS);
      await reported(stack, "replicasets", ({ replicas }) => replicas === PODS);
    },
  },
  {
    name: "1,000 Deployments of 5 pods",
    async make(stack) {
      for (let i = 0; i < DEPLOYMENTS; i++) await post(stack, "Deployment", `web-${i}`, PODS / DEPLOYMENTS);
      await reported(stack, "deployments", ({ updatedReplicas }) => updatedReplicas === PODS / DEPLOYMENTS);
    },
  },
  {
    name: "300 ReplicaSets of a Deployment, template by template",
    async make(stack) {
      await post(stack, "Deployment", "web", 0);
      for (let i = 1; i <= TEMPLATES; i++) {
        await until(`${i} ReplicaSets exist`, async () => (await stack.person.list(`${APPS}/replicasets`)).items.length === i);
        const spec = { template: podTemplate("web", `web:${i + 1}`) };
        if (i < TEMPLATES) await stack.person.request("PATCH", `${APPS}/deployments/web`, { spec }, "application/merge-patch+json");
      }
      await reported(stack, "deployments", ({ observedGeneration }) => observedGeneration === TEMPLATES);
    },
  },
];

export async function bench(): Promise<readonly BenchResult[]> {
  const results: BenchResult[] = [];
  for (const { name, make } of SHAPES) {
    const stack = await startStack({ nodes: 0 });
    let requests = 0;
    stack.server.onRequest(({ userAgent, resource }) => {
      if (userAgent.startsWith("deltaloop/") && resource !== "events" && resource !== "leases") requests++;
    });
    try {
      const start = performance.now();
      await make(stack);
      const seconds = (performance.now() - start) / 1_000;
      process.stderr.write(`  ${name}: ${seconds.toFixed(1)} s, ${requests} requests (store ${stack.storeName})\n`);
      results.push(benchResult(name, "s", [seconds]), benchResult(`requests for ${name}`, "requests", [requests]));
    } finally {
      await stack.stop();
    }
  }
  return results;
}

async function post({ person }: Stack, kind: "Deployment" | "ReplicaSet", name: string, replicas: number): Promise<void> {
  const history = kind === "Deployment" ? { revisionHistoryLimit: TEMPLATES } : {};
  const spec = { replicas, selector: { matchLabels: { app: name } }, template: podTemplate(name), ...history };
  await person.request("POST", `${APPS}/${kind.toLowerCase()}s`, { apiVersion: "apps/v1", kind, metadata: { name }, spec });
}

type Status = Readonly<Partial<Record<"replicas" | "updatedReplicas" | "observedGeneration", number>>>;

/** Waits until all statuses meet the condition. */
async function reported({ person }: Stack, resource: "deployments" | "replicasets", isSo: (status: Status) => boolean): Promise<void> {
  await until(`${resource} are as wanted`, async () => {
    const { items } = await person.list(`${APPS}/${resource}`);
    return items.every(({ status }) => isSo((status ?? {}) as Status)); // the status of a workload
  });
}
