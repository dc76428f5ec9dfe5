/** Rollouts on real control planes. */
import type { RawClient } from "../../support/raw-client.ts";
import { eventually } from "../../support/eventually.ts";
import { deploymentOf, DEPLOYMENTS } from "../../bench/clusters/workload.ts";

/** Longer than any fault of the deployment lasts. */
const AVAILABLE_MS_MAX = 150_000;

/** Rolls out a Deployment of 1, and deletes it. @returns milliseconds from POST to available */
export async function rollOut({ client }: { readonly client: RawClient }, name: string, canary: string): Promise<number> {
  const from = performance.now();
  await client.request("POST", DEPLOYMENTS, deploymentOf(name, 1, canary));
  try {
    const isDone = async (): Promise<boolean> => {
      const { status } = await client.request<{ status?: { availableReplicas?: number } }>("GET", `${DEPLOYMENTS}/${name}`);
      return status?.availableReplicas === 1;
    };
    await eventually(`${name} is available`, isDone, AVAILABLE_MS_MAX);
    return performance.now() - from;
  } finally {
    await client.request("DELETE", `${DEPLOYMENTS}/${name}`, { propagationPolicy: "Background" });
  }
}
