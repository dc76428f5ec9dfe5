/** The table of metrics, compared with upstream's metrics, with the code that records them, and with the generated files. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { metricDocuments } from "../../infra/metric-documents.ts";
import { createPrometheusMetrics } from "../../shared/base/prometheus/registry.ts";
import { METRICS, RUNTIME_OPERATIONS } from "../../shared/base/metrics/metric-table.ts";
import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { RESOURCE_METRICS, resourceMetrics } from "../../shared/node-agent/server/resource-metrics.ts";
import type { MetricProcess, MetricRow } from "../../shared/base/metrics/metric-table.ts";
import { stagingVersion } from "../envtest/pins.ts";

const ROOT = join(import.meta.dirname, "../..");
const STAGING = stagingVersion(KUBERNETES_VERSION);
const ROWS: readonly (readonly [name: string, row: MetricRow])[] = Object.entries(METRICS);
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

describe("the table of metrics", () => {
  it.each(ROWS)("%s is counted in the file it names", (name, { where }) => {
    expect(read(where)).toContain(`"${name}"`);
  });

  it.each(ROWS)("%s follows Prometheus' naming rules", (name, { type, unit, buckets, help, labels }) => {
    expect(name).toMatch(/^[a-z][a-z0-9_]*$/);
    // The kubelet's counters that violate the naming rule.
    expect(
      name.endsWith("_total") ||
        name === "kubelet_evictions" ||
        name === "kubelet_preemptions" ||
        name.endsWith("_expiration_renew_errors"),
    ).toBe(type === "counter" || type === "kept");
    if (unit === "seconds" || unit === "ratio") expect(name.endsWith(`_${unit}`)).toBe(true);
    expect(buckets !== undefined).toBe(type === "histogram");
    expect(buckets ?? []).toEqual((buckets ?? []).toSorted((a, b) => a - b));
    expect(help.length).toBeGreaterThan(10);
    expect(Object.keys(labels).every((label) => /^[a-z_]+$/.test(label))).toBe(true);
  });

  it("every label is bounded, and none contains an object's name", () => {
    const open = ROWS.flatMap(([name, { labels }]) =>
      Object.entries(labels).flatMap(([label, values]) => (typeof values === "string" ? [`${name} ${label}: ${values}`] : [])),
    );
    expect(new Set(open.map((text) => text.split(" ")[1]?.replace(":", "")))).toEqual(
      new Set(["cluster", "code", "host", "name", "group", "resource", "exit_code", "reason", "eviction_signal"]),
    );
    const series = ROWS.map(([, { labels }]) =>
      Object.values(labels).reduce((product, values) => product * (typeof values === "string" ? 6 : values.length), 1),
    );
    expect(Math.max(...series)).toBeLessThanOrEqual(200);
  });

  it("the table has every reason for starting a watch or a list", () => {
    const given = [...read("shared/kube/list-watch/reflector.ts").matchAll(/(?:listFrom|watchFrom|listLatest)\([^")\n]*"([^"]+)"/g)].map(
      ([, why]) => why ?? "",
    );
    const known: readonly string[] = [...METRICS.deltaloop_lists_total.labels.reason, ...METRICS.deltaloop_watches_total.labels.reason];
    expect(given.length).toBeGreaterThan(12);
    expect(given.filter((why) => !known.includes(why))).toEqual([]);
  });

  it.each(Object.entries(metricDocuments()))("infra/%s equals the output of node infra/generate.ts", (path, text) => {
    expect(read(join("infra", path))).toBe(text);
  });
});

interface Dashboard {
  readonly panels: readonly {
    readonly id: number;
    readonly type: string;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

describe("the dashboard", () => {
  const { panels } = JSON.parse(read("infra/dashboard.json")) as Dashboard;
  const expressions = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

  it("the dashboard uses only existing metrics and labels, and shows each metric", () => {
    const words = /\b(?:sum|max|rate|histogram_quantile|by|le)\b|\[5m\]|[\d.(),]/g;
    const labels = new Set(ROWS.flatMap(([, row]) => Object.keys(row.labels)));
    const named = expressions
      .flatMap((expr) => expr.replaceAll(words, " ").split(/\s+/))
      .filter((word) => word !== "" && !labels.has(word));
    const known = new Set(ROWS.map(([name, { type }]) => (type === "histogram" ? `${name}_bucket` : name)));
    expect(new Set(named)).toEqual(known);
  });

  it("each panel has its own place", () => {
    const places = panels.map(({ gridPos: { x, y } }) => `${x},${y}`);
    expect(new Set(places).size).toBe(panels.length);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
  });
});

const kubernetes = upstreamFolder();
describe.skipIf(kubernetes === undefined)(
  "upstream's own metrics, in its source (skipped where Go's module cache has no Kubernetes)",
  () => {
    // Collects skipped tests, too.
    const textsIn = (folder: string): readonly string[] =>
      kubernetes === undefined ? [] : goFiles(join(kubernetes, folder)).map((file) => readFileSync(file, "utf8"));
    const texts = [
      `component-base@${STAGING}/metrics/prometheus`,
      `kubernetes@${KUBERNETES_VERSION}/pkg/controller/replicaset/metrics`,
      `kubernetes@${KUBERNETES_VERSION}/pkg/kubelet/metrics`,
      `kubernetes@${KUBERNETES_VERSION}/pkg/kubelet/certificate`,
      `kubernetes@${KUBERNETES_VERSION}/cmd/kubelet/app`,
    ].flatMap(textsIn);

    it.each(ROWS.filter(([, { upstream }]) => upstream))(
      "%s has upstream's help, labels and buckets",
      (name, { help, labels, buckets }) => {
        const found = texts.flatMap(metricsOf).find((each) => each.name === name);
        expect(found).toEqual({ name, help, labels: Object.keys(labels), buckets: buckets ?? [] });
      },
    );

    it("the runtime's operations have upstream's names", () => {
      const text = textsIn(`kubernetes@${KUBERNETES_VERSION}/pkg/kubelet/kuberuntime`).join("\n");
      const operations = new Set([...text.matchAll(/const operation = "(\w+)"/g)].map(([, operation]) => operation));
      expect(Object.values(RUNTIME_OPERATIONS).filter((operation) => !operations.has(operation))).toEqual([]);
    });

    it.each(Object.entries(RESOURCE_METRICS))("%s of /metrics/resource has upstream's help and labels", (name, { help, labels }) => {
      const [text = ""] = textsIn(`kubernetes@${KUBERNETES_VERSION}/pkg/kubelet/metrics/collectors`).filter((each) =>
        each.includes(`"${name}"`),
      );
      const [, found, of = ""] = new RegExp(`NewDesc\\("${name}",\\s*"([^"]*)",\\s*(?:nil|\\[\\]string\\{([^}]*)\\})`).exec(text) ?? [];
      expect({ help: found, labels: [...of.matchAll(/"(\w+)"/g)].map(([, label]) => label) }).toEqual({ help, labels });
    });
  },
);

const promtool = spawnSync("promtool", ["--version"]).status === 0;
describe.skipIf(!promtool)(
  "exposed metrics, by Prometheus' own check (skipped where there is no promtool: apt-get install prometheus)",
  () => {
    it.each(["watcher", "functions", "node"] satisfies readonly MetricProcess[])("the metrics of the %s", async (process) => {
      const metrics = createPrometheusMetrics(process);
      metrics.count("rest_client_requests_total", { code: "200", method: "GET", host: "127.0.0.1:6443" });
      metrics.observe("workqueue_work_duration_seconds", { name: "replicationmanager" }, 0.02);
      metrics.set("deltaloop_gate_open", { controller: "deployment" }, 1);
      const checked = spawnSync("promtool", ["check", "metrics"], { input: await metrics.text(), encoding: "utf8" });
      expect({ status: checked.status, said: checked.stderr + checked.stdout }).toEqual({ status: 0, said: "" });
    });

    it("/metrics/resource", async () => {
      const usage = { timestampMs: 1_700_000_000_000, cpuSeconds: 12.5, workingSetBytes: 4096 };
      const none = async (): Promise<readonly never[]> => [];
      const input = await resourceMetrics({ listContainers: none, listContainerStats: none }, async () => usage);
      const checked = spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
      expect({ status: checked.status, said: checked.stderr + checked.stdout }).toEqual({ status: 0, said: "" });
    });

    it("the dashboard's queries, as rules", () => {
      const { panels } = JSON.parse(read("infra/dashboard.json")) as Dashboard;
      const rules = panels.flatMap(({ targets = [] }) => targets.map(({ expr }, i) => ({ record: `panel:query:${i}`, expr })));
      const folder = mkdtempSync(join(tmpdir(), "deltaloop-rules-"));
      try {
        writeFileSync(join(folder, "rules.yml"), JSON.stringify({ groups: [{ name: "dashboard", rules }] })); // JSON is valid YAML
        const checked = spawnSync("promtool", ["check", "rules", "--lint=none", join(folder, "rules.yml")], { encoding: "utf8" });
        expect(checked.stdout + checked.stderr).toContain(`SUCCESS: ${rules.length} rules found`);
      } finally {
        rmSync(folder, { recursive: true });
      }
    });
  },
);

interface UpstreamMetric {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets: readonly number[];
}

/** Returns the metrics of `NewXVec(&XOpts{Subsystem, Name, Help, Buckets}, []string{labels})`, with constants of the same file resolved. */
function metricsOf(text: string): readonly UpstreamMetric[] {
  const constants = new Map([
    ...[...text.matchAll(/(\w+)\s*=\s*("[^"\n]*"|\[\]float64\{[^}]*\})/g)].map(([, name = "", value = ""]) => [name, value] as const),
    // Source: github.com/prometheus/client_golang prometheus/histogram.go DefBuckets.
    // Source: pkg/kubelet/metrics/metrics.go KubeletSubsystem.
    ...["metrics.KubeletSubsystem", "kubeletmetrics.KubeletSubsystem"].map((name) => [name, '"kubelet"'] as const),
    ["metrics.DefBuckets", "{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}"] as const,
  ]);
  const calls = text.matchAll(
    /New(?:Gauge|Counter|Histogram)(Vec|Func)?\(\s*&[\w.]*Opts\{([\s\S]*?)\n\s*\}(?:,\s*func\b|(?:,\s*(?:\[\]string\{([^}]*)\})?,?\s*)?\))/g,
  );
  return [...calls].map(([, , options = "", labels = ""]) => {
    const field = (name: string): string => {
      const [, value = ""] = new RegExp(`\\b${name}:\\s*([\\s\\S]*?),\\n`).exec(`${options}\n`) ?? [];
      return [...(constants.get(value.trim()) ?? value).matchAll(/"([^"]*)"/g)].map(([, part]) => part).join("");
    };
    const [, given = ""] = /Buckets:\s*(\[\]float64\{[^}]*\}|.*),/.exec(options) ?? [];
    const buckets = constants.get(given) ?? given;
    return {
      name: [field("Namespace"), field("Subsystem"), field("Name")].filter((part) => part !== "").join("_"),
      help: field("Help"),
      labels: [...labels.matchAll(/"([^"]*)"/g)].map(([, label = ""]) => label),
      buckets: bucketsOf(buckets),
    };
  });
}

function bucketsOf(text: string): readonly number[] {
  const [, start, factor, count] = /ExponentialBuckets\(([^,]+), ([^,]+), ([^)]+)\)/.exec(text)?.map(Number) ?? [];
  if (start !== undefined && factor !== undefined)
    return Array.from({ length: count ?? 0 }, (_, i) => Number((start * factor ** i).toPrecision(12)));
  return [...text.replaceAll(/\/\/.*$/gm, "").matchAll(/[{\s]([\d.]+)/g)].map(([, value]) => Number(value));
}

function goFiles(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".go") && !file.endsWith("_test.go"))
    .map((file) => join(folder, file));
}

function upstreamFolder(): string | undefined {
  const { stdout } = spawnSync("go", ["env", "GOMODCACHE"], { encoding: "utf8" });
  const folder = join((stdout ?? "").trim(), "k8s.io");
  return existsSync(join(folder, `kubernetes@${KUBERNETES_VERSION}`)) ? folder : undefined;
}
