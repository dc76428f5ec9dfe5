/**
 * A rollout on the embedded stack: the time from the PATCH of a Deployment's image until its status reports completion, with maxSurge and
 * maxUnavailable of 25 %, and the number of writes. Nodes add no delay, so only our time is measured: each step of a rollout waits for pod
 * statuses to arrive as events.
 */
import { podTemplate, startStack, until } from "./embedded.ts";
import type { Stack } from "./embedded.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";
import { isRolledOut } from "../../cli/dev/rollout.ts";
import type { Rollout } from "../../cli/dev/rollout.ts";

const SIZES = [10, 100];
const ROUNDS = 5;
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
/** Nodes without delays of their own. */
const AT_ONCE = { readyAfterMs: [0, 1], deleteAfterMs: [0, 1] } as const;

export async function bench(): Promise<readonly BenchResult[]> {
  const stack = await startStack({ pace: AT_ONCE });
  try {
    const results: BenchResult[] = [];
    for (const size of SIZES) results.push(...(await rollouts(stack, size)));
    return results;
  } finally {
    await stack.stop();
  }
}

async function rollouts(stack: Stack, size: number): Promise<readonly BenchResult[]> {
  const name = `web-${size}`;
  const spec = { replicas: size, selector: { matchLabels: { app: name } }, template: podTemplate(name) };
  await stack.person.request("POST", DEPLOYMENTS, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name }, spec });
  await until(`${name} is complete`, () => complete(stack, name));
  const [times, writes]: [number[], number[]] = [[], []];
  for (let round = 0; round < ROUNDS; round++) {
    let written = 0;
    const stop = stack.server.onRequest(({ verb, userAgent, resource }) => {
      if (
        userAgent.startsWith("deltaloop/") &&
        resource !== "events" &&
        resource !== "leases" &&
        ["create", "patch", "delete"].includes(verb)
      )
        written++;
    });
    const start = performance.now();
    const containers = [{ name: "main", image: `${name}:${round + 2}` }];
    await stack.person.request(
      "PATCH",
      `${DEPLOYMENTS}/${name}`,
      { spec: { template: { spec: { containers } } } },
      "application/strategic-merge-patch+json",
    );
    await until(`${name} is rolled`, () => complete(stack, name));
    times.push((performance.now() - start) / 1_000);
    writes.push(written);
    stop();
  }
  return [
    benchResult(`rollout of ${size} pods`, "s", times),
    benchResult(`writes of a rollout of ${size} pods`, "writes", writes, { name: "a create and a delete for each pod", value: 2 * size }),
  ];
}

async function complete({ person }: Stack, name: string): Promise<boolean> {
  return isRolledOut((await person.request("GET", `${DEPLOYMENTS}/${name}`)) as unknown as Rollout); // a Deployment
}
