import { isBuiltIn } from "@deltaloop/kube/objects";
import { describeError } from "@deltaloop/kube/client";
import type { Doorbell, Doorbells } from "@deltaloop/store/ports";
import type { Log } from "@deltaloop/base";
import { WORK_QUEUES } from "@deltaloop/base/metrics";
import type { Metrics } from "@deltaloop/base/metrics";

/**
 * Rings doorbells. A failure is harmless, because the key stays dirty and the sweeper rings it. `metrics` counts added keys; omit it for
 * repeated doorbells.
 */
export async function ring(
  ports: { readonly doorbells: Doorbells; readonly log: Log; readonly metrics?: Metrics | undefined },
  bells: readonly Doorbell[],
): Promise<void> {
  for (const { controller } of bells)
    ports.metrics?.count("workqueue_adds_total", { name: isBuiltIn(controller) ? WORK_QUEUES[controller] : controller });
  try {
    await ports.doorbells.ring(bells);
  } catch (error) {
    ports.log.warn("failed to ring doorbells; leaving them to the sweeper", { count: bells.length, error: describeError(error) });
  }
}
