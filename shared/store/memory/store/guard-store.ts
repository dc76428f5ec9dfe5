/** The guard (informer §11.9). No other writer has this memory, so everything is trusted. */
import type { ForeignWrite, GuardState, GuardStore, Reported } from "../../ports/store.ts";
import { stopAfter } from "../../ports/guard-store.ts";
import type { StoreOptions } from "../../store-options.ts";
import type { MemoryData } from "./data.ts";

export function reportForeignWrite(data: MemoryData, write: ForeignWrite, nowMs: number): Reported {
  const { guard } = data;
  if (write.atMs <= guard.forgivenMs) return { kind: "forgiven", forgivenMs: guard.forgivenMs };
  const stop = stopAfter(guard, write, nowMs);
  if (stop) data.guard = { ...guard, stop, version: next(guard) };
  return { kind: "stopped" };
}

export function resume(
  data: MemoryData,
  { version, forgivenMs }: Parameters<GuardStore["resume"]>[0],
): Awaited<ReturnType<GuardStore["resume"]>> {
  const { guard } = data;
  if (guard.version !== version) return "changed";
  data.guard = { forgivenMs: Math.max(guard.forgivenMs, forgivenMs), version: next(guard) };
  return "resumed";
}

/** GD7. */
export function stopFor({ guard }: Pick<MemoryData, "guard">, { ignoresStop = false }: StoreOptions): GuardState["stop"] {
  return ignoresStop ? undefined : guard.stop;
}

function next({ version }: GuardState): string {
  return String(Number(version) + 1);
}
