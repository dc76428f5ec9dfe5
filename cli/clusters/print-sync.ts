import { printable } from "@deltaloop/base/output";
import type { ReplayedSync } from "@deltaloop/replay/sync-log";
import { describeTrace } from "../explain/describe.ts";

/** Prints what a sync decided, on standard error; `cluster` is a prefix. */
export function printSync(sync: ReplayedSync, cluster: string): void {
  const lines = sync.lines
    .filter(({ kind }) => kind !== "event" && kind !== "reason")
    .map((line) => `            ${describeTrace(line)}\n`);
  if (lines.length === 0 && sync.error === undefined) return;
  process.stderr.write(
    `${cluster}${sync.controller} ${printable(`${sync.key}: ${sync.reasons.slice(0, 3).join(", ") || "a delayed requeue or a retry"}`)}\n${lines.join("")}${sync.error === undefined ? "" : `            error: ${printable(sync.error)}\n`}`,
  );
}
