// Would catch: a pod that holds resources on the node and is not counted, and a counted pod that holds none.
import { expect, test } from "vitest";
import { activePods } from "../../../../shared/node-agent/kubelet/pod-workers/active-pods.ts";
import type { KnownPods } from "../../../../shared/node-agent/kubelet/pod-workers/active-pods.ts";
import { nodePod } from "../fixtures.ts";
import { started } from "../worker-builders.ts";

const WORKERS = {
  none: undefined,
  syncing: started(),
  terminating: started({ terminatingAtMs: 1 }),
  terminated: started({ terminatingAtMs: 1, startedTerminating: true, terminatedAtMs: 2 }),
};

function isActive(
  worker: keyof typeof WORKERS,
  { api = "Pending", cached, hasRelisted = true }: { readonly api?: string; readonly cached?: string; readonly hasRelisted?: boolean },
): boolean {
  const pod = nodePod({ uid: "a", containers: ["main"] });
  const known: KnownPods = {
    desired: [{ ...pod, status: { phase: api } }],
    records: new Map(WORKERS[worker] === undefined ? [] : [["a", WORKERS[worker]]]),
    statuses: new Map(cached === undefined ? [] : [["a", { status: { phase: cached }, version: 1, sentVersion: 0, changedAtMs: 0 }]]),
    hasRelisted,
  };
  return activePods(known).length === 1;
}

test.each<{ name: string; phases: Parameters<typeof isActive>[1]; active: readonly (keyof typeof WORKERS)[] }>([
  { name: "no terminal phase", phases: {}, active: ["none", "syncing", "terminating"] },
  { name: "a terminal phase in the API server", phases: { api: "Succeeded" }, active: ["terminating"] },
  { name: "a terminal phase only in the cache", phases: { api: "Running", cached: "Failed" }, active: ["terminating"] },
  { name: "a non-terminal cached phase", phases: { cached: "Running" }, active: ["none", "syncing", "terminating"] },
  { name: "a terminal phase, before the first relist,", phases: { api: "Failed", hasRelisted: false }, active: [] },
  {
    name: "a non-terminal phase, before the first relist,",
    phases: { hasRelisted: false },
    active: ["none", "syncing", "terminating"],
  },
])("[node-agent 133] a pod with $name is active if its worker state is one of $active", ({ phases, active }) => {
  const all: readonly (keyof typeof WORKERS)[] = ["none", "syncing", "terminating", "terminated"];
  expect(all.filter((worker) => isActive(worker, phases))).toEqual(active);
});
