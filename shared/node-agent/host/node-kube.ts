/**
 * The node's API client: bounds retries by the caller's deadline, and retries rejections of the node authorizer. That authorizer learns of
 * a binding from its own watch, so it may reject the pod and its ConfigMaps, Secrets and tokens for some milliseconds ("no relationship
 * found"). Source: plugin/pkg/auth/authorizer/node/node_authorizer.go.
 */
import type { Resource } from "@deltaloop/kube/objects";
import type { Clock, RetryBudget } from "@deltaloop/base";
import { isForbidden } from "@deltaloop/kube/client";
import type { KubeReader, KubeWatch, KubeWriter } from "@deltaloop/kube/client";
import { retryBudgetUntil, HEARTBEAT_TIMEOUT_MS, HEARTBEAT_WAIT_MS_MAX, NODE_CALL_WAIT_MS_MAX } from "@deltaloop/base";

/** Delays between attempts after a 403; a permanent 403 is therefore returned after 1.3 s. */
const PAUSES_MS: readonly number[] = [100, 300, 900];

type NodeKube = KubeReader & KubeWriter & KubeWatch<Resource>;

/** Two clients of the same API server with separate connection limits. */
interface Clients {
  /**
   * Client for the Node and its Lease; these calls must not queue behind calls for pods. Source: cmd/kubelet/app/server.go HeartbeatClient.
   */
  readonly heartbeats: NodeKube;
  readonly calls: NodeKube;
}

/**
 * Retries 403 only for requests by name and for subresources: the authorizer allows lists, watches and writes of the node's own objects
 * without a pod. Calls for the Lease or the Node time out before the next heartbeat, which retries them.
 */
export function createNodeKube({ heartbeats, calls }: Clients, clock: Clock): NodeKube {
  const isHeartbeat = (resource: Resource): boolean => resource === "leases" || resource === "nodes";
  const kubeFor = (resource: Resource): NodeKube => (isHeartbeat(resource) ? heartbeats : calls);
  const retryBudgetFor = (resource: Resource): RetryBudget =>
    isHeartbeat(resource)
      ? retryBudgetUntil(clock, clock.now() + HEARTBEAT_WAIT_MS_MAX, HEARTBEAT_TIMEOUT_MS)
      : retryBudgetUntil(clock, clock.now() + NODE_CALL_WAIT_MS_MAX);
  const retryForbidden = async <T>(resource: Resource, call: (retryBudget: RetryBudget) => Promise<T>): Promise<T> => {
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
      retryForbidden(resource, (retryBudget) => kubeFor(resource).get(resource, namespace, name, { retryBudget })),
    list: (resource, namespace, options) =>
      kubeFor(resource).list(resource, namespace, { ...options, retryBudget: retryBudgetFor(resource) }),
    create: (request) =>
      request.of === undefined
        ? kubeFor(request.resource).create({ ...request, retryBudget: retryBudgetFor(request.resource) })
        : retryForbidden(request.resource, (retryBudget) => kubeFor(request.resource).create({ ...request, retryBudget })),
    patch: (request) => retryForbidden(request.resource, (retryBudget) => kubeFor(request.resource).patch({ ...request, retryBudget })),
    delete: (request) => retryForbidden(request.resource, (retryBudget) => kubeFor(request.resource).delete({ ...request, retryBudget })),
    replace: (request) => kubeFor(request.resource).replace({ ...request, retryBudget: retryBudgetFor(request.resource) }),
  };
}
