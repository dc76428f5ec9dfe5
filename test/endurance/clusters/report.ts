/** The output of the proof: summaries, the table of faults, and what was found with the log lines that matter. */

/** One violation, and when it happened. */
export interface Finding {
  /** Absent for one of the deployment. */
  readonly cluster?: string;
  readonly fault: string;
  readonly minute: number;
  /** Load average of the machine, because another process may have delayed it. */
  readonly load: number;
  readonly what: string;
  readonly lines: readonly string[];
}

/** The measurements of one fault. */
export interface FaultTimes {
  readonly fault: string;
  readonly boundSeconds: number;
  count: number;
  /** Milliseconds of rollouts in other clusters while the fault lasted. */
  readonly others: number[];
  /** Milliseconds from the end of the fault to a rollout in each cluster that it affected. */
  readonly recoveries: number[];
}

const LINES = 12;
const MS_PER_SECOND = 1_000;
/** A line about a sync, or a continuation of one. */
const SYNC = /^(\s|functions\s+[\w-]+: \w+ \S+\/\S+:|[\w-]+: \w+ \S+\/\S+:)/;

export function findingText({ cluster, fault, minute, load, what, lines }: Finding): string {
  const of = cluster === undefined ? "" : `${cluster}: `;
  return [`${of}${what} (at ${minute.toFixed(1)} min, ${fault}, load ${load.toFixed(1)})`, ...lines.map((line) => `    ${line}`)].join(
    "\n",
  );
}

/** The last lines about a cluster, and all warnings if it is undefined, each kind once; `output` begins when the fault did. */
export function linesThatMatter(output: string, cluster: string | undefined): readonly string[] {
  const about = cluster === undefined ? /\b(warn|error)|exited|started/ : new RegExp(`\\b${cluster}\\b`);
  const lines = output.split("\n").filter((line) => about.test(line) && !SYNC.test(line));
  const byKind = Map.groupBy(lines, (line) => line.replace(/\b[0-9a-f]*\d[0-9a-f-]*\b/g, "#"));
  const last = [...byKind.values()].map((all) => ({ line: all.at(-1) ?? "", count: all.length, at: lines.lastIndexOf(all.at(-1) ?? "") }));
  return last
    .toSorted((a, b) => a.at - b.at)
    .slice(-LINES)
    .map(({ line, count }) => (count === 1 ? line : `${line} (${count} times)`));
}

export function tableOf(rows: readonly FaultTimes[]): string {
  const header = ["fault", "times", "others p50", "p99", "max ms", "converges after p50", "max s", "bound s"];
  const seconds = (ms: number): string => (ms / MS_PER_SECOND).toFixed(1);
  const cells = rows.map(({ fault, count, others, recoveries, boundSeconds }) => [
    ...[fault, String(count)],
    ...(others.length === 0 ? ["", "", ""] : [0.5, 0.99, 1].map((share) => quantile(others, share).toFixed(0))),
    ...(recoveries.length === 0 ? ["", ""] : [0.5, 1].map((share) => seconds(quantile(recoveries, share)))),
    String(boundSeconds),
  ]);
  const widths = header.map((title, i) => Math.max(...[title, ...cells.map((row) => row[i] ?? "")].map(({ length }) => length)));
  return [header, ...cells]
    .map((row) => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  "))
    .join("\n");
}

export function summary(times: readonly number[]): string {
  return times.length === 0
    ? "none"
    : `p50 ${quantile(times, 0.5).toFixed(0)}, p99 ${quantile(times, 0.99).toFixed(0)}, max ${quantile(times, 1).toFixed(0)} ms (${times.length})`;
}

function quantile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.ceil(times.length * share) - 1] ?? Number.NaN;
}
