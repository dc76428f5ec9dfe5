/** Tracks running syncs of this process, from the workers' trace. */
import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { Controller } from "@deltaloop/kube/objects";
import type { TraceLine } from "@deltaloop/controllers/kit";
import { WORK_QUEUES } from "@deltaloop/base/metrics";
import type { Metrics } from "@deltaloop/base/metrics";

export class RunningSyncs {
  readonly #started = new Map<string, { readonly controller: Controller; readonly sinceMs: number }>();

  trace(cluster: string, { controller, key, kind }: TraceLine, nowMs: number): void {
    const id = `${cluster} ${controller} ${key}`;
    if (kind === "started") this.#started.set(id, { controller, sinceMs: nowMs });
    if (kind === "ended") this.#started.delete(id);
  }

  /** Sets the metrics of unfinished work. Source: client-go util/workqueue/metrics.go updateUnfinishedWork. */
  tell(metrics: Metrics, nowMs: number): void {
    const running = [...this.#started.values()];
    for (const each of CONTROLLERS) {
      const seconds = running.filter(({ controller }) => controller === each).map(({ sinceMs }) => (nowMs - sinceMs) / 1000);
      const name = WORK_QUEUES[each];
      metrics.set(
        "workqueue_unfinished_work_seconds",
        { name },
        seconds.reduce((sum, one) => sum + one, 0),
      );
      metrics.set("workqueue_longest_running_processor_seconds", { name }, Math.max(0, ...seconds));
    }
  }
}
