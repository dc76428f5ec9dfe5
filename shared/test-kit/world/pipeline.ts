/** The user's controllers on the API server: watcher, applier, views, work queue and own writes, on the memory Store and queue. */
import type { Clock } from "@deltaloop/base";
import { createInProcessKube } from "@deltaloop/api-server";
import type { ApiServer } from "@deltaloop/api-server";
import { UPKEEP_TIMES } from "@deltaloop/controllers/cache";
import { createApplierFunction, createSyncFunction } from "@deltaloop/controllers/lambda";
import { failureOfCode, ownControllers, ownKeySync, registryOf } from "@deltaloop/controllers/own";
import type { OwnReport } from "@deltaloop/controllers/own";
import { cacheOf, syncFunction } from "@deltaloop/controllers/registry";
import { tableOf } from "@deltaloop/kube/objects";
import type { ControllerName } from "@deltaloop/kube/objects";
import { KubeApiError, UnansweredError } from "@deltaloop/kube/client";
import type { Kube } from "@deltaloop/kube/client";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import type { MemoryBackend } from "@deltaloop/local";
import type { Controller } from "@deltaloop/sdk";
import { createMemoryData } from "@deltaloop/store/memory";
import type { MemoryData } from "@deltaloop/store/memory";
import type { CallFaults } from "../crashes/call-faults.ts";
import { DifferentResultsError, syncTwice } from "../decide/twice.ts";
import { CLUSTER, DIGESTER, NO_DEAD_LETTERS, QUIET, SIGNER } from "./constants.ts";
import type { Surroundings } from "./constants.ts";
import type { Recorder } from "./record.ts";

/** Hooks through which simulations inject faults. */
export interface Hooks {
  readonly faults?: CallFaults;
  /** Wraps the client of a component: `watcher`, `apply-deltas`, `sync-<controller>`. */
  readonly kube?: (kube: Kube, component: string, clock: Clock) => Kube;
  readonly onReport?: (report: OwnReport) => void;
  readonly deltaFaults?: Parameters<typeof memoryBackend>[0]["deltaFaults"];
  readonly doorbellFaults?: Parameters<typeof memoryBackend>[0]["doorbellFaults"];
}

export interface PipelineOptions extends Surroundings {
  readonly server: ApiServer;
  readonly controllers: readonly Controller[];
  readonly recorder: Recorder;
  readonly hooks: Hooks;
  readonly report: (report: OwnReport) => void;
  /** A sync returned two results for one snapshot. */
  readonly onDifference: (error: Error) => void;
}

export interface Pipeline extends MemoryBackend {
  /** The Store's data. */
  readonly data: MemoryData;
  /** Names of the controllers. */
  readonly names: readonly ControllerName[];
}

export function startPipeline({ server, controllers, recorder, hooks, report, onDifference, clock, random }: PipelineOptions): Pipeline {
  const entries = ownControllers(controllers.map(({ definition }) => definition));
  const registry = registryOf(entries);
  const cache = cacheOf(registry);
  const { faults, deltaFaults, doorbellFaults } = hooks;
  const data = createMemoryData(cache.catalog);
  const backend = memoryBackend({
    ...{ clock, random, digester: DIGESTER, deployment: "own", cluster: CLUSTER, catalog: cache.catalog, data },
    ...(deltaFaults && { deltaFaults }),
    ...(doorbellFaults && { doorbellFaults }),
  });
  const byName = new Map(controllers.map((controller) => [controller.name, controller]));
  const functions = {
    sync: async ({ controller, snapshot, nowMs, live }: Parameters<Parameters<typeof ownKeySync>[1]["functions"]["sync"]>[0]) => {
      const found = byName.get(controller);
      if (found === undefined) throw new TypeError(`no controller ${controller}`); // the registry has no others
      try {
        return await syncTwice(found, snapshot, { now: new Date(nowMs), log: { info: () => undefined }, live });
      } catch (error) {
        if (error instanceof DifferentResultsError) onDifference(error);
        // As in a function host, the failure of a call is no fault of the code.
        if (error instanceof KubeApiError || error instanceof UnansweredError || error instanceof DifferentResultsError) throw error;
        throw error instanceof Error ? failureOfCode(error.message, error.name) : failureOfCode(String(error), "Error");
      }
    },
  };
  const handlers = new Map(
    entries.map((entry) => {
      const keySync = ownKeySync(entry, { functions, report });
      return [entry.name as ControllerName, recorder.keySync(entry.definition, faults?.keySync(entry.name, keySync) ?? keySync)];
    }),
  );
  assembleSystem<ControllerName>(
    {
      ...{ clock, random, digester: DIGESTER, signer: SIGNER, log: QUIET, ...backend },
      ...(faults && { functionStore: faults.store(backend.store) }),
      kube: (component) => {
        const kube = createInProcessKube(server, { component });
        return hooks.kube?.(kube, component, clock) ?? kube;
      },
      functions: (wiring, onChanges) => ({
        applyDeltas: createApplierFunction({ ...wiring("apply-deltas"), registry: cache, ...(onChanges && { onChanges }) }),
        deadDeltas: NO_DEAD_LETTERS,
        sync: tableOf(cache.catalog.controllers, (name) => {
          const keySync = handlers.get(name);
          return createSyncFunction(wiring(syncFunction(name)), registry, name, keySync ? { [name]: keySync } : {});
        }),
      }),
    },
    { cluster: CLUSTER, clusterUid: "own", registry, upkeep: UPKEEP_TIMES },
  );
  return { ...backend, data, names: cache.catalog.controllers };
}
