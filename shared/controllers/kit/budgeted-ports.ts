/** Adds the run's retry budget to each call, so that syncs need not pass it. */
import type { Resource } from "@deltaloop/kube/objects";
import type { RetryBudget } from "@deltaloop/base";
import { EVENT_WAIT_MS_MAX } from "@deltaloop/base";
import type { SyncPorts } from "./run.ts";

/**
 * Returns the same dependencies with `retryBudget` on each call. An Event gets EVENT_WAIT_MS_MAX at most: the sync awaits its Events while
 * another run may wait for the key.
 */
export function withRetryBudget<P extends Pick<SyncPorts, "reader" | "gateway" | "clock">>(ports: P, retryBudget: RetryBudget): P {
  const { reader, gateway, clock } = ports;
  const forEvent = (): RetryBudget => {
    const untilMs = clock.now() + EVENT_WAIT_MS_MAX;
    return { ...retryBudget, waitMsMax: () => Math.min(retryBudget.waitMsMax(), Math.max(0, untilMs - clock.now())) };
  };
  const retryBudgetOf = (resource: Resource): RetryBudget => (resource === "events" ? forEvent() : retryBudget);
  return {
    ...ports,
    reader: {
      get: (resource, namespace, name) => reader.get(resource, namespace, name, { retryBudget }),
      list: (resource, namespace, options) => reader.list(resource, namespace, { ...options, retryBudget }),
    },
    gateway: {
      mode: gateway.mode,
      forRun(owner) {
        const run = gateway.forRun(owner);
        return {
          create: (request) => run.create({ ...request, retryBudget: retryBudgetOf(request.resource) }),
          patch: (request, row) => run.patch({ ...request, retryBudget: retryBudgetOf(request.resource) }, row),
          delete: (request, row) => run.delete({ ...request, retryBudget }, row),
        };
      },
    },
  };
}
