/** The functions that are deployed. Fragments of infra/, the local function host and tests take them from here. */
import { FUNCTION_TIMEOUT_SECONDS } from "@deltaloop/base";
import { logicalName, pascalCase, syncFunction } from "./names.ts";
import type { Registry } from "./registry.ts";

export interface FunctionEntry {
  /** Its folder under functions/, and what it is deployed as. */
  readonly name: string;
  /** In CloudFormation. */
  readonly logical: string;
  readonly timeoutSeconds: number;
  /**
   * CloudFormation name of the queue it is on, how many invocations read it, and whether what failed is made visible sooner; absent: nothing but
   * time calls it.
   */
  readonly queue?: { readonly logical: string; readonly maximumConcurrency: string; readonly makesVisible: boolean };
  /** Whose keys it syncs. */
  readonly controller?: string;
  /** Calls the API server, with a service account and a token of its own. */
  readonly usesKube: boolean;
  /** Rings doorbells, so it may be part of a chain that Lambda would take for a loop. */
  readonly rings: boolean;
}

/** In the order in which people read them. */
export function functionsOf({ controllers, resources }: Registry): readonly FunctionEntry[] {
  return [
    {
      name: "apply-deltas",
      logical: pascalCase("apply-deltas"),
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS["apply-deltas"],
      // A FIFO queue never runs more invocations than it has busy groups (25 lanes).
      queue: { logical: "DeltasQueue", maximumConcurrency: "25", makesVisible: true },
      usesKube: true,
      rings: true,
    },
    {
      // Of Q1's dead-letter queue.
      name: "dead-deltas",
      logical: pascalCase("dead-deltas"),
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS["dead-deltas"],
      // Lambda's least. Nobody waits for a dead letter.
      queue: { logical: "DeltasDeadQueue", maximumConcurrency: "2", makesVisible: false },
      usesKube: false,
      rings: false,
    },
    ...controllers.map((entry): FunctionEntry => ({
      name: syncFunction(entry.name),
      logical: `Sync${logicalName(entry, resources)}`,
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS.sync,
      queue: { logical: `${logicalName(entry, resources)}Queue`, maximumConcurrency: "${param:maximumConcurrency}", makesVisible: true },
      controller: entry.name,
      usesKube: true,
      rings: true,
    })),
    {
      name: "sweep",
      logical: pascalCase("sweep"),
      timeoutSeconds: FUNCTION_TIMEOUT_SECONDS.sweep,
      usesKube: false,
      rings: true,
    },
  ];
}
