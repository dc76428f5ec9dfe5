/** The report of a month as text (a table, the comparison with a resident pod, savings) and as an object (`-o`, described in cli/README.md). */
import type { ClustersReport } from "./clusters.ts";
import type { Resident } from "./compare.ts";
import { sumOf } from "./month.ts";
import type { Item } from "./month.ts";
import { COUNTED } from "@deltaloop/controllers/registry";
import type { Measured } from "./metrics.ts";
import type { Rates } from "./usage.ts";

export interface Report {
  readonly region: string;
  readonly pricesOf: string;
  readonly countsOf: string;
  readonly countedAt: string;
  readonly slower: number;
  readonly parameters: Readonly<Record<string, string>>;
  /** The workload: given as rates or measured. */
  readonly rates?: Rates;
  readonly measured?: Measured;
  readonly items: readonly Item[];
  readonly residents: readonly Resident[];
  /** Present for several clusters. */
  readonly clusters?: ClustersReport;
  readonly savings: readonly { readonly parameter: string; readonly wants: string; readonly usd: number }[];
}

const FORMAT_VERSION = 1;
/** Minimum share of the sum for an item to be listed. */
const LARGE_SHARE = 0.1;

export function reportAsObject(report: Report): object {
  return { version: FORMAT_VERSION, ...report, sum: sumOf(report.items) };
}

export function reportForPeople(report: Report): string {
  const { items, region, pricesOf, countsOf, countedAt, slower } = report;
  const sum = sumOf(items);
  return [
    `deltaloop cost: a month of 730 hours in ${region}, in US dollars; prices of ${pricesOf}, counts of ${countsOf} at ${countedAt}`,
    `for ${report.rates ? workOf(report.rates, report.clusters?.count ?? 1) : measuredText(report.measured)}, with ${parametersOf(report.parameters)}`,
    "",
    ...table(items, sum),
    "",
    dominance(items, sum),
    "",
    ...(report.clusters ? severalClusters(report.clusters) : beside(report.residents, sum)),
    ...(report.savings.length > 0 ? ["", "Cheaper with one of:", ...report.savings.map(saving)] : []),
    "",
    `Free tiers, discounts and tax are not included. The counts are from one machine; times are multiplied by ${slower}.`,
    "This was never compared with a bill: we have not deployed deltaloop to AWS. The additional load of the API server is not included.",
    ...items.flatMap(({ name, uncertain }) => (uncertain === undefined ? [] : [`* ${name}: ${uncertain}`])),
    "",
  ].join("\n");
}

function workOf({ deployments, pods, ...perDay }: Rates, clusters: number): string {
  const said = [
    [perDay.rolloutsPerDay, `rollouts of ${pods}`],
    [perDay.newDeploymentsPerDay, "new Deployments of 1"],
    [perDay.lostPodsPerDay, "lost pods"],
    [perDay.podChangesPerDay, "changes of pods"],
    [perDay.otherPodsPerDay, "pods of others"],
  ] as const;
  const done = said.flatMap(([times, what]) => (times > 0 ? [`${times} ${what}`] : []));
  if (deployments === 0 && done.length === 0) return clusters > 1 ? `${clusters} idle clusters` : "an idle cluster";
  const where = clusters > 1 ? ` in ${clusters} clusters` : "";
  return `${deployments} Deployments of ${pods}${where}${done.length > 0 ? ` and, a day, ${done.join(", ")}` : ", idle"}`;
}

function measuredText(measured: Measured | undefined): string {
  if (measured === undefined) return "nothing";
  const { hours, messages, doorbells } = measured;
  return `a measured workload of ${messages.toLocaleString("en")} messages and ${doorbells.toLocaleString("en")} doorbells in ${Number(hours.toPrecision(3))} hours`;
}

function parametersOf(parameters: Readonly<Record<string, string>>): string {
  const given = Object.entries(parameters).filter(([name]) => COUNTED.includes(name));
  return given.length === 0 ? "default parameters" : given.map(([name, value]) => `${name}=${value}`).join(" ");
}

function table(items: readonly Item[], sum: ReturnType<typeof sumOf>): readonly string[] {
  const rows = items
    .toSorted((a, b) => b.idleUsd + b.workUsd - a.idleUsd - a.workUsd)
    .map(({ name, idle, work, unit, idleUsd, workUsd, uncertain }) => [
      `${name}${uncertain === undefined ? "" : " *"}`,
      `${quantity(idle + work)} ${unit}`,
      usd(idleUsd),
      usd(workUsd),
      usd(idleUsd + workUsd),
    ]);
  const last = ["sum", "", usd(sum.idleUsd), usd(sum.workUsd), usd(sum.usd)];
  const all = [["item", "amount", "idle", "work", "per month"], ...rows, last];
  const widths = last.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  return all.map((row) =>
    row.map((cell, column) => (column < 2 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join("  "),
  );
}

function severalClusters({ count, items, serverless, residents, goals }: ClustersReport): readonly string[] {
  const all = items.reduce((total, item) => total + item.usd, 0);
  return [
    ...clustersTable("idle clusters", count, items),
    "",
    ...clustersTable("ElastiCache Serverless as store", count, serverless),
    "",
    `Resident controller managers of ${count} control planes instead:`,
    ...residents.map(({ name, usd: theirs }) => `  ${name.padEnd(44)} ${usd(theirs).padStart(9)}   ${ratio(all, theirs)}`),
    "",
    "Goals for idle clusters with these parameters:",
    ...goals.map(
      ({ what, usd: is, goalUsd, isMet }) =>
        `  ${what.padEnd(52)} ${cents(is).padStart(9)}   ${isMet ? "met" : "not met"}, at most ${usd(goalUsd)}`,
    ),
  ];
}

function clustersTable(name: string, count: number, items: ClustersReport["items"]): readonly string[] {
  const sum = (of: (item: ClustersReport["items"][number]) => number): number => items.reduce((total, item) => total + of(item), 0);
  const total = {
    name: "sum",
    firstUsd: sum((each) => each.firstUsd),
    furtherUsd: sum((each) => each.furtherUsd),
    usd: sum((each) => each.usd),
  };
  const rows = [
    [name, "the first", "each further", `all ${count}`],
    ...[...items, total].map((item) => [item.name, usd(item.firstUsd), cents(item.furtherUsd), usd(item.usd)]),
  ];
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows.map((row) => row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join("  "));
}

function ratio(ours: number, theirs: number): string {
  if (theirs === 0) return "free";
  return ours < theirs ? `deltaloop: ${((ours / theirs) * 100).toFixed(1)} %` : `deltaloop: ${(ours / theirs).toFixed(1)} times`;
}

/** Amounts below a dollar with four digits, because those of one cluster are small. */
function cents(amount: number): string {
  return Math.abs(amount) < 1 ? amount.toFixed(4) : amount.toFixed(2);
}

function dominance(items: readonly Item[], sum: ReturnType<typeof sumOf>): string {
  if (sum.usd === 0) return "Everything is free at these prices.";
  const share = (part: number): string => `${Math.round((part / sum.usd) * 100)} %`;
  const large = items
    .map(({ name, idleUsd, workUsd }) => ({ name, of: idleUsd + workUsd }))
    .filter((item) => item.of / sum.usd >= LARGE_SHARE)
    .toSorted((a, b) => b.of - a.of);
  return `${share(sum.idleUsd)} is idle cost. Largest items: ${large.map((item) => `${item.name} (${share(item.of)})`).join(", ")}.`;
}

function beside(residents: readonly Resident[], { idleUsd, usd: ours }: ReturnType<typeof sumOf>): readonly string[] {
  const cheapest = Math.min(...residents.map((resident) => resident.usd));
  const rows = residents.map(({ name, usd: theirs }) => {
    const [less, more] = ours < theirs ? [ours, theirs] : [theirs, ours];
    const times = less > 0 ? ` (${ours < theirs ? "" : "1/"}${(more / less).toFixed(1)} ${ours < theirs ? "times" : "of"} the cost)` : "";
    const compared = ours === theirs ? "costs the same" : `${ours < theirs ? "more expensive" : "cheaper"} by ${usd(more - less)}${times}`;
    return `  ${name.padEnd(28)} ${usd(theirs).padStart(8)}   ${compared}`;
  });
  return [
    "A resident controller manager on Fargate instead:",
    ...rows,
    ...(idleUsd > cheapest
      ? [`The cheapest of them costs less than the idle cost of deltaloop, so it is cheaper for every workload.`]
      : []),
    "A kube-controller-manager that runs anyway does the same work at almost no extra cost. Cost is no reason to use deltaloop.",
  ];
}

function saving({ parameter, wants, usd: less }: Report["savings"][number]): string {
  return `  ${parameter.padEnd(18)} ${usd(less).padStart(8)}   requires ${wants}`;
}

function usd(amount: number): string {
  return amount > 0 && amount < 0.005 ? "< 0.01" : amount.toFixed(2);
}

function quantity(amount: number): string {
  return amount >= 1e6
    ? `${(amount / 1e6).toFixed(2)} million`
    : amount >= 100
      ? Math.round(amount).toLocaleString("en")
      : `${Number(amount.toPrecision(3))}`;
}
