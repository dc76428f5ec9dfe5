/** Generates the reference page and a dashboard for Grafana from the table of metrics. */
import { METRICS } from "@deltaloop/base/metrics";
import type { MetricRow } from "@deltaloop/base/metrics";

const ROWS: readonly (readonly [name: string, row: MetricRow])[] = Object.entries(METRICS);
const [VALUES_MAX, HELP_WORDS_MAX, SHARED_MIN] = [9, 40, 2];
const code = (text: string): string => `\`${text}\``;

/** Maps each path (relative to this folder) to its text. */
export function metricDocuments(): Readonly<Record<string, string>> {
  return { "../docs/reference/metrics.md": table(), "dashboard.json": `${JSON.stringify(dashboard(), undefined, 2)}\n` };
}

function table(): string {
  const own = ROWS.filter(([, { upstream }]) => !upstream);
  const upstream = ROWS.filter((row) => !own.includes(row));
  return [
    "# Metrics",
    "",
    "`node infra/generate.ts` writes this page from `shared/base/metrics/metric-table.ts`. [Operate](../guides/operate.md#metrics-and-health)",
    "says where processes serve metrics. Lambda functions write them to their log in CloudWatch's embedded metric format, namespace",
    "`deltaloop/<deployment>`, with the additional dimension `function`, unless DELTALOOP_METRICS is `none`. *Leader*: only the watcher that leads.",
    "",
    "## Own metrics",
    "",
    ...markdownTable(
      ["metric", "type", "labels", "processes", "help"],
      own.map(([name, row]) => [
        code(name),
        row.type === "kept" ? "counter, kept in the Store" : row.type,
        ...seriesOf(row),
        shortened(row.help),
      ]),
    ),
    "",
    "## Upstream's metrics",
    "",
    "Names, types, labels, buckets and help are [upstream's](https://kubernetes.io/docs/reference/instrumentation/metrics/).",
    "",
    ...markdownTable(
      ["metric", "labels", "processes"],
      upstream.map(([name, row]) => [code(name), ...seriesOf(row)]),
    ),
    "",
    "## Labels of several metrics",
    "",
    ...markdownTable(
      ["label", "values"],
      [...SHARED_LABELS].map(([label, values]) => [code(label), values]),
    ),
    "",
  ].join("\n");
}

function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const line = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)];
}

function seriesOf({ labels, processes, leader }: MetricRow): readonly string[] {
  return [Object.entries(labels).map(labelText).join("; ") || "–", `${processes.join(", ")}${leader ? " (leader)" : ""}`];
}

/** Values that a label has in several metrics, by label. */
const SHARED_LABELS: ReadonlyMap<string, string> = sharedLabels();

function sharedLabels(): ReadonlyMap<string, string> {
  const groups = Map.groupBy(
    ROWS.flatMap(([, { labels }]) => Object.entries(labels)).map(([label, values]) => ({ label, text: valuesText(values) })),
    ({ label, text }) => `${label} ${text}`,
  );
  const shared = [...groups.values()].filter(({ length }) => length >= SHARED_MIN).toSorted((a, b) => a.length - b.length);
  return new Map(shared.flatMap(([first]) => (first === undefined ? [] : [[first.label, first.text]]))); // the first entry has the most frequent values of each label
}

function labelText([label, values]: readonly [string, readonly string[] | string]): string {
  const text = valuesText(values);
  return SHARED_LABELS.get(label) === text ? code(label) : `${code(label)}: ${text}`;
}

function valuesText(values: readonly string[] | string): string {
  if (typeof values === "string") return values;
  const listed = values.length > VALUES_MAX ? [...values.slice(0, VALUES_MAX), `… (${values.length})`] : values;
  return listed.map(code).join(", ");
}

/** Shortens a help text to whole sentences, at least one. */
function shortened(help: string): string {
  const sentences = help.split(/(?<=\.) /);
  let text = sentences[0] ?? "";
  for (const sentence of sentences.slice(1)) {
    if (`${text} ${sentence}`.split(" ").length > HELP_WORDS_MAX) break;
    text += ` ${sentence}`;
  }
  return text;
}

/** Returns a dashboard with one panel for each metric, in rows by the process that exposes it, in Grafana's dashboard model. */
function dashboard(): object {
  const groups = Map.groupBy(ROWS, ([name]) => GROUPS.find(({ prefix }) => name.startsWith(prefix))?.title ?? "Our own");
  let [id, y] = [0, 0];
  const panels = [...groups].flatMap(([title, rows]) => {
    const head = { id: ++id, type: "row", title, collapsed: false, gridPos: { x: 0, y: y++, w: COLUMNS, h: 1 }, panels: [] };
    const shown = rows.map(([name, row], i) =>
      panel(++id, name, row, { x: (i % PER_LINE) * WIDTH, y: y + Math.floor(i / PER_LINE) * HEIGHT }),
    );
    y += Math.ceil(rows.length / PER_LINE) * HEIGHT;
    return [head, ...shown];
  });
  const datasource = { name: "datasource", label: "Prometheus", type: "datasource", query: "prometheus" };
  return {
    uid: "deltaloop",
    title: "deltaloop",
    tags: ["deltaloop"],
    editable: true,
    schemaVersion: 39,
    refresh: "30s",
    time: { from: "now-1h", to: "now" },
    templating: { list: [datasource] },
    panels,
  };
}

const GROUPS = [
  { prefix: "workqueue_", title: "Work queues" },
  { prefix: "rest_client_", title: "Calls to the API server" },
  { prefix: "leader_election_", title: "Leader election" },
  { prefix: "informer_", title: "Informers" },
  { prefix: "replicaset_controller_", title: "ReplicaSet controller" },
  { prefix: "kubelet_", title: "Node agent" },
] as const;
/** Grafana's grid. */
const [COLUMNS, PER_LINE, HEIGHT] = [24, 3, 8];
const WIDTH = COLUMNS / PER_LINE;
const UNITS = { count: "short", seconds: "s", ratio: "short", version: "none", state: "bool" } as const;

function panel(id: number, name: string, row: MetricRow, at: { readonly x: number; readonly y: number }): object {
  const unit = row.type === "counter" || row.type === "kept" ? "ops" : UNITS[row.unit];
  return {
    id,
    type: "timeseries",
    title: name,
    description: row.help,
    datasource: { type: "prometheus", uid: "${datasource}" },
    gridPos: { ...at, w: WIDTH, h: HEIGHT },
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets: queriesOf(name, row).map(({ expr, legendFormat }, i) => ({ refId: String.fromCharCode(65 + i), expr, legendFormat })),
  };
}

/** Omits the label `host`, because only one API server is called. */
function queriesOf(name: string, { type, labels }: MetricRow): readonly { readonly expr: string; readonly legendFormat: string }[] {
  const by = Object.keys(labels).filter((label) => label !== "host");
  const legend = by.map((label) => `{{${label}}}`).join(" ") || name;
  const grouped = (parts: readonly string[]): string => (parts.length === 0 ? "" : ` by (${parts.join(", ")})`);
  switch (type) {
    case "gauge":
      return [{ expr: `max${grouped(by)} (${name})`, legendFormat: legend }];
    case "counter":
    case "kept":
      return [{ expr: `sum${grouped(by)} (rate(${name}[5m]))`, legendFormat: legend }];
    case "histogram":
      return [0.5, 0.99].map((quantile) => ({
        expr: `histogram_quantile(${quantile}, sum${grouped([...by, "le"])} (rate(${name}_bucket[5m])))`,
        legendFormat: `p${quantile * 100} ${legend}`,
      }));
  }
}
