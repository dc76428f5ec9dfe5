/**
 * A node's way to the API server: as patient as its turns can be, and patient with its authorizer: which objects are a node's is worked out there from a watch of its
 * own, so for some milliseconds after a pod was bound the node that has seen it already is refused the pod, its ConfigMaps, Secrets
 * and tokens ("no relationship found"). Source: plugin/pkg/auth/authorizer/node/node_authorizer.go.
 */
import type { Resource } from "@deltaloop/kube/objects";
import type { Clock, RetryBudget } from "@deltaloop/base";
import { isForbidden } from "@deltaloop/kube/client";
import type { KubeReader, KubeWatch, KubeWriter } from "@deltaloop/kube/client";
import { retryBudgetUntil, HEARTBEAT_TIMEOUT_MS, HEARTBEAT_WAIT_MS_MAX, NODE_CALL_WAIT_MS_MAX } from "@deltaloop/base";

/** What is refused for good is said 1.3 s later. */
const PAUSES_MS: readonly number[] = [100, 300, 900];

type NodeKube = KubeReader & KubeWriter & KubeWatch<Resource>;

/** Two ways to the same API server, with places of their own for calls that are on their way. */
interface Ways {
  /** Of the Node and its Lease: whatever pods need and who asks the agent, they do not wait behind it. Source: cmd/kubelet/app/server.go HeartbeatClient. */
  readonly heartbeats: NodeKube;
  readonly calls: NodeKube;
}

/**
 * Refusals are waited out only for what is asked by name: lists, watches and what a node writes of itself do not depend on pods.
 * A Lease or the Node is tried again by its next tick, so a call for it ends within that.
 */
export function patientKube({ heartbeats, calls }: Ways, clock: Clock): NodeKube {
  const isHeartbeat = (resource: Resource): boolean => resource === "leases" || resource === "nodes";
  const kubeFor = (resource: Resource): NodeKube => (isHeartbeat(resource) ? heartbeats : calls);
  const retryBudgetFor = (resource: Resource): RetryBudget =>
    isHeartbeat(resource)
      ? retryBudgetUntil(clock, clock.now() + HEARTBEAT_WAIT_MS_MAX, HEARTBEAT_TIMEOUT_MS)
      : retryBudgetUntil(clock, clock.now() + NODE_CALL_WAIT_MS_MAX);
  const patiently = async <T>(resource: Resource, call: (retryBudget: RetryBudget) => Promise<T>): Promise<T> => {
    const retryBudget = retryBudgetFor(resource);
    for (const pauseMs of PAUSES_MS) {
      try {
        return await call(retryBudget);
      } catch (error) {
        if (!isForbidden(error)) throw error;
      }
      await clock.after(pauseMs);
    }
    return await call(retryBudget);
  };
  return {
    ...calls,
    get: (resource, namespace, name) =>
      patiently(resource, (retryBudget) => kubeFor(resource).get(resource, namespace, name, { retryBudget })),
    list: (resource, namespace, options) =>
      kubeFor(resource).list(resource, namespace, { ...options, retryBudget: retryBudgetFor(resource) }),
    create: (request) =>
      request.of === undefined
        ? kubeFor(request.resource).create({ ...request, retryBudget: retryBudgetFor(request.resource) })
        : patiently(request.resource, (retryBudget) => kubeFor(request.resource).create({ ...request, retryBudget })),
    patch: (request) => patiently(request.resource, (retryBudget) => kubeFor(request.resource).patch({ ...request, retryBudget })),
    delete: (request) => patiently(request.resource, (retryBudget) => kubeFor(request.resource).delete({ ...request, retryBudget })),
    replace: (request) => kubeFor(request.resource).replace({ ...request, retryBudget: retryBudgetFor(request.resource) }),
  };
}
