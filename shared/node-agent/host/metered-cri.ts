/** Counts and times each call of the runtime (node-agent §15). Source: pkg/kubelet/kuberuntime/instrumented_services.go. */
import type { Clock } from "@deltaloop/base";
import type { Cri } from "../ports/cri.ts";
import { RUNTIME_OPERATIONS } from "@deltaloop/base/metrics";
import type { Metrics } from "@deltaloop/base/metrics";

type Call = (...parameters: readonly unknown[]) => Promise<unknown>;

/** Wraps every method of `cri`, and passes its results and errors through. */
export function meterCri(cri: Cri, metrics: Metrics, clock: Clock): Cri {
  const metered = Object.entries(RUNTIME_OPERATIONS).map(([verb, operation]) => {
    const call = cri[verb as keyof Cri] as Call; // RUNTIME_OPERATIONS lists exactly the methods of the port
    const meter: Call = async (...parameters) => {
      const labels = { operation_type: operation };
      const startedAtMs = clock.now();
      try {
        return await call(...parameters);
      } catch (error) {
        metrics.count("kubelet_runtime_operations_errors_total", labels);
        throw error;
      } finally {
        metrics.count("kubelet_runtime_operations_total", labels);
        metrics.observe("kubelet_runtime_operations_duration_seconds", labels, (clock.now() - startedAtMs) / 1000);
      }
    };
    return [verb, meter] as const;
  });
  return { ...cri, ...(Object.fromEntries(metered) as unknown as Cri) }; // each wrapper has the signature of the method that it wraps
}
