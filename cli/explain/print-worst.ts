/** The workloads of a capture or a namespace, worst first. */
import { printable } from "@deltaloop/base/output";
import type { Verdict } from "@deltaloop/replay/explain";
import { objectText } from "../output/output-option.ts";
import type { OutputFormat } from "../output/output-option.ts";
import { verdictJson, worstText } from "./verdict-text.ts";

const EXIT_NOTHING = 1;

interface WorstFlags {
  readonly output?: OutputFormat;
  readonly all?: true;
  readonly namespace?: string | undefined;
}

/** Prints the verdicts. @param file undefined for a running cluster */
export function printWorst(verdicts: readonly Verdict[], file: string | undefined, { output, all, namespace }: WorstFlags): void {
  if (verdicts.length === 0) {
    const places = [namespace && `namespace ${namespace}`, file === "-" ? "standard input" : file];
    process.stderr.write(`${printable(`deltaloop: no workload found in ${places.filter(Boolean).join(" of ")}`)}\n`);
    process.exitCode = EXIT_NOTHING;
    return;
  }
  if (!output) process.stdout.write(worstText(verdicts, all === true));
  else for (const verdict of verdicts) process.stdout.write(objectText(verdictJson(verdict), output));
}
