/** The deployed functions, for the fragments of infra/, the local function host and tests. */
import { FUNCTION_TIMEOUT_SECONDS } from "@deltaloop/base";
import { lanesOf } from "@deltaloop/store/ports";
import { logicalName, pascalCase, syncFunction } from "./names.ts";
import { watchedBy } from "./registry.ts";
import type { Registry } from "./cache-of.ts";

/** Concurrent appliers in addition to one per lane. */
const SPARE_APPLIERS = 2;

export interface FunctionEntry {
  /** Name of its folder under functions/, and its deployed name. */
  readonly name: string;
  /** Logical id in CloudFormation. */
  readonly logical: string;
  readonly timeoutSeconds: number;
  /**
   * Logical id of its queue, the number of concurrent invocations, and whether failed messages become visible sooner; absent for a
   * scheduled function.
   */
  readonly queue?: { readonly logical: string; readonly maximumConcurrency: string; readonly makesVisible: boolean };
  /** The controller whose keys it syncs. */
  readonly controller?: string;
  /** Whether it calls the API server, with its own service account and token. */
  readonly usesKube: boolean;
  /** Whether the function reads rows or messages and therefore has the keys for MACs and digests. */
  readonly usesKeys: boolean;
  /** Whether it rings doorbells: Lambda's recursive loop detection must then be off. */
  readonly rings: boolean;
}

/** Returns the functions in the order of the data flow. */
export function functionsOf(registry: Registry): readonly FunctionEntry[] {
  const { controllers, resources } = registry;
  const lanes = watchedBy(registry).reduce((sum, name) => sum + lanesOf(name), 0);
  return [
    {
      name: "apply-deltas",
      logical: pascalCase("apply-deltas"),
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS["apply-deltas"],
      // A FIFO queue never runs more invocations than it has busy groups, which are the lanes.
      queue: { logical: "DeltasQueue", maximumConcurrency: String(lanes + SPARE_APPLIERS), makesVisible: true },
      usesKube: true,
      usesKeys: true,
      rings: true,
    },
    {
      // Consumes the delta queue's dead-letter queue.
      name: "dead-deltas",
      logical: pascalCase("dead-deltas"),
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS["dead-deltas"],
      // Lambda's minimum. Dead letters are not urgent.
      queue: { logical: "DeltasDeadQueue", maximumConcurrency: "2", makesVisible: false },
      usesKube: false,
      usesKeys: true,
      rings: false,
    },
    ...controllers.map((entry): FunctionEntry => ({
      name: syncFunction(entry.name),
      logical: `Sync${logicalName(entry, resources)}`,
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS.sync,
      queue: { logical: `${logicalName(entry, resources)}Queue`, maximumConcurrency: "${param:maximumConcurrency}", makesVisible: true },
      controller: entry.name,
      usesKube: true,
      usesKeys: true,
      rings: true,
    })),
    {
      name: "sweep",
      logical: pascalCase("sweep"),
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS.sweep,
      usesKube: false,
      usesKeys: false,
      rings: true,
    },
  ];
}
