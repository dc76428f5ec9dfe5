/** What a probe that ran came to, and what is said of it (node-agent §9, §11). */
import type { ExecSyncResponse } from "../../ports/cri-types.ts";
import type { ProbeKind } from "../../ports/node-store.ts";
import type { ProbeOutcome } from "../../ports/prober.ts";

/** Source: pkg/probe/exec/exec.go maxReadLength. */
const OUTPUT_MAX = 10 * 1024;

/** How often a probe that cannot be run is tried in one turn; what it says counts the first time. Source: prober.go maxProbeRetries. */
export const PROBE_TRIES_MAX = 3;

const TITLES: { readonly [K in ProbeKind]: string } = { readiness: "Readiness", liveness: "Liveness", startup: "Startup" };

/** Of a command that ended. One that timed out is a failure too; one that could not be run is an error. Source: pkg/probe/exec/exec.go. */
export function execOutcome({ exitCode, stdout, stderr }: ExecSyncResponse): ProbeOutcome {
  return { result: exitCode === 0 ? "Success" : "Failure", output: `${stdout}${stderr}`.slice(0, OUTPUT_MAX) };
}

export interface ProbeNote {
  readonly type: "Warning";
  readonly reason: "Unhealthy" | "ProbeWarning";
  readonly message: string;
}

/** The event about an outcome, whether or not a threshold is reached by it; a plain success has none. Source: prober.go probe. */
export function probeNote(kind: ProbeKind, { result, output, warning }: ProbeOutcome): ProbeNote | undefined {
  const title = TITLES[kind];
  switch (result) {
    case "Failure":
      return { type: "Warning", reason: "Unhealthy", message: `${title} probe failed: ${output}` };
    case "error":
      return { type: "Warning", reason: "Unhealthy", message: `${title} probe errored and resulted in unknown state: ${output}` };
    case "Success":
      return warning && { type: "Warning", reason: "ProbeWarning", message: `${title} probe warning: ${output}` };
    default:
      return result satisfies never;
  }
}
