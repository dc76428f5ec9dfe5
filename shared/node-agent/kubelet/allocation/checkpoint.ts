/** The allocation checkpoint (node-agent §6.11). */
import { isObject } from "@deltaloop/base";
import type { PodAllocation } from "../../ports/node-store.ts";

/** File name below the agent's root directory. Upstream's `allocated_pods_state` has another format and is ignored. */
export const ALLOCATIONS_FILE = "deltaloop-allocations.json";
const VERSION = 1;

/** Serializes allocations by UID. */
export function writtenAllocations(allocations: ReadonlyMap<string, PodAllocation>): string {
  return JSON.stringify({ version: VERSION, pods: Object.fromEntries(allocations) });
}

/** Parses a checkpoint. @throws {TypeError} for an unknown format */
export function readAllocations(text: string): ReadonlyMap<string, PodAllocation> {
  const { version, pods } = parsed(text);
  if (version !== VERSION) throw new TypeError(`version ${String(version)} is not supported`);
  if (!isObject(pods)) throw new TypeError("pods is missing");
  return new Map(
    Object.entries(pods).map(([uid, row]) => {
      if (!isObject(row) || !isObject(row["containers"])) throw new TypeError(`pod ${uid} has no containers`);
      return [uid, row as unknown as PodAllocation]; // written atomically by writtenAllocations
    }),
  );
}

function parsed(text: string): { readonly version?: unknown; readonly pods?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (error) {
    throw new TypeError("not JSON", { cause: error });
  }
  throw new TypeError("not an object");
}
