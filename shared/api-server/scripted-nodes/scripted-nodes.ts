/**
 * Nodes without machines: Node objects with Leases, pods that become Running and Ready after a delay, deletions that complete.
 * A load generator and the demo's nodes, for the in-memory or a real API server.
 */
import type { Kube } from "@deltaloop/kube/client";
import { createFleet } from "./fleet.ts";
import type { ScriptedNodesOptions } from "./fleet.ts";
import { keepNodes, registerNodes } from "./nodes.ts";
import { keepPods } from "./pods.ts";

export type { ScriptedNodesOptions } from "./fleet.ts";

/** Runs until the signal is aborted. @throws only if the nodes cannot be registered at all. */
export async function runScriptedNodes(kube: Kube, options: ScriptedNodesOptions, signal: AbortSignal): Promise<void> {
  const fleet = createFleet(kube, options, signal);
  await registerNodes(fleet);
  await Promise.all([keepNodes(fleet), keepPods(fleet)]);
}
