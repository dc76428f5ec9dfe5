/**
 * Reports the gates of all clusters once a minute (CloudWatch does not scrape the watcher).
 *
 * UH1 one cluster's failure does not stop the check of the others.
 * UH2 the number of metrics does not grow with the clusters: a gate's metric is that of the worst cluster, and one metric counts the
 *     unhealthy ones. The log has their names and ids, at most NAMED_MAX a minute.
 */
import { CONTROLLERS } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { Store } from "@deltaloop/store/ports";
import type { FunctionWiring } from "./wiring.ts";

export const NAMED_MAX = 20;
const AT_ONCE = 20;

/** Returns the ids of the unhealthy clusters. */
export async function reportClusterHealth({
  clusters,
  cluster,
  metrics,
  log,
}: Pick<FunctionWiring, "clusters" | "cluster" | "metrics" | "log">): Promise<readonly string[]> {
  const closed = new Set<string>();
  const unhealthy: { readonly cluster: string; readonly cid: string; readonly why: string }[] = [];
  const examine = async (cid: string): Promise<void> => {
    const examined = cluster(cid);
    if (examined === undefined) return;
    const { store, name = cid } = examined;
    const gates = await gatesOf(store);
    for (const { controller } of gates) closed.add(controller);
    if (gates.length > 0)
      unhealthy.push({ cluster: name, cid, why: gates.map(({ controller, why }) => `${controller}: ${why}`).join("; ") });
  };
  for (let from = 0; from < clusters.length; from += AT_ONCE) await Promise.all(clusters.slice(from, from + AT_ONCE).map(examine));
  for (const controller of CONTROLLERS) metrics?.set("deltaloop_gate_open", { controller }, closed.has(controller) ? 0 : 1);
  metrics?.set("deltaloop_unhealthy_clusters", {}, unhealthy.length);
  for (const each of unhealthy.slice(0, NAMED_MAX)) log.warn("cluster unhealthy", each);
  const more = unhealthy.length - NAMED_MAX;
  if (more > 0) log.warn("more clusters unhealthy", { clusters: more });
  return unhealthy.map(({ cid }) => cid);
}

/** The closed gates of one cluster. */
async function gatesOf(store: Pick<Store, "gate">): Promise<readonly { readonly controller: string; readonly why: string }[]> {
  const gates = await Promise.all(
    CONTROLLERS.map(async (controller) => {
      try {
        const gate = await store.gate(controller);
        return gate.open ? undefined : { controller, why: gate.reason };
      } catch (error) {
        return { controller, why: describeError(error) };
      }
    }),
  );
  return gates.filter((gate) => gate !== undefined);
}
