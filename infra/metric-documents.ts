/** What is made of the table of metrics: the table for people, and a dashboard for Grafana. */
import { METRICS } from "../shared/ports/metric-table.ts";
import type { MetricRow } from "../shared/ports/metric-table.ts";

const ROWS: readonly (readonly [name: string, row: MetricRow])[] = Object.entries(METRICS);

/** Path, from this folder, to text. */
export function metricDocuments(): Readonly<Record<string, string>> {
  return { "../docs/metrics.md": table() };
}

function table(): string {
  const head = [
    "# Metrics",
    "",
    "Made by `node infra/generate.ts` out of `shared/ports/metric-table.ts`; what each is for stands in [informer §16](spec/informer.md).",
    "Names, labels, help and buckets that are marked are upstream's, looked up in its source. *Processes*: the watcher and the node agent",
    "tell them at `/metrics`, the function host too; in Lambda the functions write them to their log in CloudWatch's embedded metric format,",
    "namespace `deltaloop/<deployment>`, with one dimension more, `function`. Those of the *leader* are told by the watcher that leads.",
    "",
  ];
  const rows = ROWS.map(([name, row]) => {
    const cells = [
      `\`${name}\`${row.upstream ? " (upstream)" : ""}`,
      row.type === "kept" ? "counter, kept in the Store" : row.type,
      Object.entries(row.labels).map(labelText).join("; ") || "–",
      `${row.processes.join(", ")}${row.leader ? " (leader)" : ""}`,
      `\`${row.where}\``,
      row.help,
    ];
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  });
  return [...head, "| metric | type | labels | processes | counted in | help |", "|---|---|---|---|---|---|", ...rows, ""].join("\n");
}

function labelText([label, values]: readonly [string, readonly string[] | string]): string {
  return typeof values === "string" ? `${label}: ${values}` : `${label} = ${values.join(", ")}`;
}
