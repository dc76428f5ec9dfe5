/** What is granted, as a file keeps it over a restart of the agent (node-agent §6.11). */
import type { PodAllocation } from "../../ports/node-store.ts";

/** Below the agent's root. Upstream's `allocated_pods_state` may lie beside it, in another form: neither reads the other's. */
export const ALLOCATIONS_FILE = "deltaloop-allocations.json";
const VERSION = 1;

/** Key: UID. */
export function writtenAllocations(allocations: ReadonlyMap<string, PodAllocation>): string {
  return JSON.stringify({ version: VERSION, pods: Object.fromEntries(allocations) });
}

/** @throws {TypeError} when it is none of ours */
export function readAllocations(text: string): ReadonlyMap<string, PodAllocation> {
  const { version, pods } = parsed(text);
  if (version !== VERSION) throw new TypeError(`version ${String(version)} is not known`);
  if (!isObject(pods)) throw new TypeError("it has no pods");
  return new Map(
    Object.entries(pods).map(([uid, row]) => {
      if (!isObject(row) || !isObject(row["containers"])) throw new TypeError(`pod ${uid} has no containers`);
      return [uid, row as unknown as PodAllocation]; // written by writtenAllocations, and whole: the file is replaced at once
    }),
  );
}

function parsed(text: string): { readonly version?: unknown; readonly pods?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (error) {
    throw new TypeError("it is no JSON", { cause: error });
  }
  throw new TypeError("it is no object");
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
