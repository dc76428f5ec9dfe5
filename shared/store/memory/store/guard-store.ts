/** The guard (informer §11.9). Memory has no other writer, so all texts are trusted. */
import { splitKey } from "@deltaloop/kube/objects";
import type { ObjectKey } from "@deltaloop/kube/objects";
import type { ForeignWrites, GuardState, ResumeRequest, Stop } from "../../ports/store.ts";
import { afterReport, afterResume } from "../../ports/guard-store.ts";
import type { StoreOptions } from "../../store-options.ts";
import type { MemoryData } from "./data.ts";

export function reportForeignWrites(data: MemoryData, writes: ForeignWrites, nowMs: number): GuardState {
  data.guard = afterReport(data.guard, writes, nowMs);
  return data.guard;
}

export function resume(data: MemoryData, request: ResumeRequest): "resumed" | "changed" {
  const next = afterResume(data.guard, request);
  if (!next) return "changed";
  data.guard = next;
  return "resumed";
}

/** Returns the stop that applies to a key: that of the whole cluster, or else that of its namespace; undefined if the caller ignores stops (GD7). */
export function stopFor({ guard }: Pick<MemoryData, "guard">, { ignoresStop = false }: StoreOptions, key?: ObjectKey): Stop | undefined {
  if (ignoresStop) return undefined;
  return guard.stop ?? (key === undefined ? undefined : guard.namespaces.get(splitKey(key).namespace)?.stop);
}
