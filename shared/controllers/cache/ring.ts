import { describeError } from "@deltaloop/kube/client";
import type { Doorbell, Doorbells } from "@deltaloop/store/ports";
import type { Log } from "@deltaloop/base";
import { WORK_QUEUES } from "@deltaloop/base/metrics";
import type { Metrics } from "@deltaloop/base/metrics";

/**
 * A doorbell that cannot be rung is no failure: the key is dirty and the sweeper rings it. `metrics`: these keys were added, each for
 * the first time since it was taken last; absent for bells that ring again.
 */
export async function ring(
  ports: { readonly doorbells: Doorbells; readonly log: Log; readonly metrics?: Metrics | undefined },
  bells: readonly Doorbell[],
): Promise<void> {
  for (const { controller } of bells) ports.metrics?.count("workqueue_adds_total", { name: WORK_QUEUES[controller] });
  try {
    await ports.doorbells.ring(bells);
  } catch (error) {
    ports.log.warn("doorbells not rung, the sweeper will", { count: bells.length, error: describeError(error) });
  }
}
