/** Registers and renews the Node objects and Leases of a fleet, as a kubelet does. */
import type { V1Node } from "@kubernetes/client-node";
import type { Wire } from "@deltaloop/kube/objects";
import { isAlreadyExists, isNotFound } from "@deltaloop/kube/client";
import type { Fleet } from "./fleet.ts";
import { leaseObject, nodeObject, nodeStatus } from "./node-object.ts";

const LEASE_PERIOD_MS = 10_000;
const NODE_STATUS_PERIOD_MS = 300_000;
const MERGE_PATCH = "application/merge-patch+json";

/** @throws {KubeApiError} when a node cannot be registered */
export async function registerNodes(fleet: Fleet): Promise<void> {
  await Promise.all(fleet.names.map((name, index) => fleet.inTurn(() => register(fleet, name, index))));
}

/** Renews Leases every 10 s and statuses every 5 minutes until the fleet ends. Failures are retried at the next period. */
export async function keepNodes(fleet: Fleet): Promise<void> {
  const { clock } = fleet.options;
  let statusAt = clock.now() + NODE_STATUS_PERIOD_MS;
  while (await fleet.wait(LEASE_PERIOD_MS)) {
    const isStatusDue = clock.now() >= statusAt;
    if (isStatusDue) statusAt += NODE_STATUS_PERIOD_MS;
    await Promise.allSettled(fleet.names.map((name, index) => fleet.inTurn(() => renew(fleet, name, index, isStatusDue))));
  }
}

async function register(fleet: Fleet, name: string, index: number): Promise<void> {
  const { kube } = fleet;
  const body = nodeObject(name, index, fleet.now());
  const node = await kube.create({ resource: "nodes", namespace: "", body }).catch(async (error: unknown) => {
    if (!isAlreadyExists(error)) throw error;
    return await patchStatus(fleet, name, index);
  });
  // A real API server taints new nodes until the node controller sees them ready. That controller may not be running here.
  if ((node as Wire<V1Node>).spec?.taints !== undefined)
    await kube.patch({ resource: "nodes", namespace: "", name, type: MERGE_PATCH, body: { spec: { taints: null } } });
  await renewLease(fleet, name).catch(async (error: unknown) => {
    if (!isNotFound(error)) throw error;
    const lease = leaseObject(name, node.metadata.uid, microTime(fleet));
    await kube.create({ resource: "leases", namespace: "kube-node-lease", body: lease });
  });
}

async function renew(fleet: Fleet, name: string, index: number, isStatusDue: boolean): Promise<void> {
  try {
    await renewLease(fleet, name);
    if (isStatusDue) await patchStatus(fleet, name, index);
  } catch (error) {
    // The node or its lease was deleted: recreate it.
    if (isNotFound(error)) await register(fleet, name, index);
  }
}

async function renewLease(fleet: Fleet, name: string): Promise<void> {
  const body = { spec: { renewTime: microTime(fleet) } };
  await fleet.kube.patch({ resource: "leases", namespace: "kube-node-lease", name, type: MERGE_PATCH, body });
}

function patchStatus({ kube, now }: Fleet, name: string, index: number): ReturnType<typeof kube.patch> {
  const type = "application/strategic-merge-patch+json";
  const body = { status: nodeStatus(name, index, now()) };
  return kube.patch({ resource: "nodes", namespace: "", name, subresource: "status", type, body });
}

function microTime({ options }: Fleet): string {
  return new Date(options.clock.now()).toISOString().replace("Z", "000Z");
}
