/**
 * `deltaloop doctor --clusters`: the checks of each cluster of a directory.
 *
 * XC1 one cluster's failure, and a kubeconfig that is rejected, do not stop the checks of the others.
 * XC2 a healthy cluster is one line; an unhealthy one is described in full.
 */
import { describeError } from "@deltaloop/kube/client";
import type { ListedCluster } from "@deltaloop/kube/kubeconfig";
import { printable } from "@deltaloop/base/output";
import { objectText } from "../output/output-option.ts";
import type { OutputFormat } from "../output/output-option.ts";
import { reportAsObject, reportForPeople } from "./report.ts";
import type { Report } from "./report.ts";

/** What `doctor` found about one cluster: a report, or why there is none. */
export type Checked = { readonly name: string } & (
  | { readonly kind: "paused" }
  | { readonly kind: "failed"; readonly why: string }
  | { readonly kind: "report"; readonly report: Report }
);

/** Clusters whose checks run at the same time; each has several connections. */
const AT_ONCE = 8;
const FORMAT_VERSION = 1;
const EXIT_FAILURE = 1;
const WIDTH = 10;

/** Checks all clusters, in the order of `clusters`. `check` may reject. */
export async function checkClusters(
  clusters: readonly Pick<ListedCluster, "name" | "isPaused">[],
  check: (name: string) => Promise<Report>,
): Promise<readonly Checked[]> {
  const checked: Checked[] = [];
  for (let from = 0; from < clusters.length; from += AT_ONCE)
    checked.push(
      ...(await Promise.all(
        clusters.slice(from, from + AT_ONCE).map(async ({ name, isPaused }): Promise<Checked> => {
          if (isPaused) return { name, kind: "paused" };
          try {
            return { name, kind: "report", report: await check(name) };
          } catch (error) {
            return { name, kind: "failed", why: describeError(error) };
          }
        }),
      )),
    );
  return checked;
}

/** Prints the findings. Returns the exit code. @param rejected one line for each kubeconfig that was not used */
export function printClusters(
  checked: readonly Checked[],
  rejected: readonly string[],
  { output, width }: { readonly output?: OutputFormat | undefined; readonly width: number },
): { readonly text: string; readonly exitCode: number } {
  const unhealthy = checked.filter((each) => stateOf(each) === "failure");
  const exitCode = unhealthy.length > 0 || rejected.length > 0 ? EXIT_FAILURE : 0;
  if (output !== undefined) {
    const clusters = checked.map((each) => ({
      ...{ name: each.name, state: stateOf(each) },
      ...(each.kind === "failed" && { why: each.why }),
      ...(each.kind === "report" && reportAsObject(each.report)),
    }));
    return { text: objectText({ version: FORMAT_VERSION, rejected, clusters }, output), exitCode };
  }
  const lines = checked.map((each) => `${stateOf(each).padEnd(WIDTH)}${each.name}${detailOf(each)}\n`);
  const details = unhealthy.flatMap((each) => (each.kind === "report" ? [`\n${each.name}:\n${reportForPeople(each.report, width)}`] : []));
  const problems = rejected.map((line) => `${"failure".padEnd(WIDTH)}${printable(line)}\n`);
  const rejections = rejected.length > 0 ? `, ${counted(rejected.length, "problem")} of kubeconfigs` : "";
  const count = `${counted(checked.length, "cluster")}, ${unhealthy.length} with failures${rejections}\n`;
  return { text: [...lines, ...problems, ...details, `\n${count}`].join(""), exitCode };
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function stateOf(checked: Checked): "ok" | "warning" | "failure" | "paused" {
  if (checked.kind === "paused") return "paused";
  if (checked.kind === "failed") return "failure";
  const states = new Set(checked.report.findings.map(({ state }) => state));
  return states.has("failure") ? "failure" : states.has("warning") ? "warning" : "ok";
}

function detailOf(checked: Checked): string {
  if (checked.kind === "paused") return "";
  if (checked.kind === "failed") return `: ${printable(checked.why)}`;
  const { findings, tookMs } = checked.report;
  const warnings = findings.filter(({ state }) => state === "warning").map(({ check }) => check);
  const some = warnings.length > 0 ? `, warnings: ${[...new Set(warnings)].join(", ")}` : "";
  return `: ${findings.filter(({ state }) => state === "ok").length} of ${findings.length} checks ok${some}; ${(tookMs / 1000).toFixed(1)} s`;
}
