/** The health checks of deltaloop's processes. */
import { CONTROLLERS } from "@deltaloop/kube/objects";
import type { NodeCondition } from "@deltaloop/node-agent/kubelet";
import { syncLoopSilence } from "@deltaloop/node-agent/server";
import type { Clock } from "@deltaloop/base";
import type { Store } from "@deltaloop/store/ports";
import type { HealthCheck } from "./healthz.ts";
import { shutGate } from "@deltaloop/controllers/cache";

/**
 * Reports not ready after a termination signal, but live until the end. Source: apiserver/pkg/server/healthz/healthz.go NewShutdownHealthz.
 */
export function shutdownCheck(ends: AbortSignal): HealthCheck {
  return {
    name: "shutdown",
    check: () => (ends.aborted ? Promise.reject(new Error("process is shutting down")) : Promise.resolve(undefined)),
  };
}

/** Passes while the node agent's main loop makes progress. Source: pkg/kubelet/kubelet.go SyncLoopHealthCheck. */
export function syncLoopCheck(condition: Pick<NodeCondition, "lastLoopMs">, clock: Clock): HealthCheck {
  return {
    name: "syncloop",
    check: async () => {
      const silence = syncLoopSilence({ nowMs: clock.now(), lastLoopMs: condition.lastLoopMs });
      if (silence !== undefined) throw new Error(silence);
      return undefined;
    },
  };
}

/** Passes if Redis answers. */
export function storeCheck(store: Pick<Store, "epoch">): HealthCheck {
  return { name: "redis", check: async () => ((await store.epoch()) ? undefined : "no epoch yet") };
}

/**
 * Passes if all gates are open, so that keys are handed out. `exempt` returns why this process is not checked.
 * Source: apiserver/pkg/server/healthz/healthz.go NewInformerSyncHealthz.
 */
export function informerSyncCheck(store: Pick<Store, "gate">, exempt: () => string | undefined = () => undefined): HealthCheck {
  return {
    name: "informer-sync",
    check: async () => {
      const why = exempt();
      if (why !== undefined) return why;
      const shut = await shutGate(store);
      if (shut !== undefined) throw new Error(shut);
      return `${CONTROLLERS.length} gates open`;
    },
  };
}
