/** The month of several clusters behind one deployment: its cost item by item, and the goals for idle clusters. */
import { serverlessOf, sumOf } from "./month.ts";
import type { Item } from "./month.ts";
import { residentsOfClusters } from "./compare.ts";
import type { Resident } from "./compare.ts";
import type { CountsFile } from "./counts.ts";
import type { Prices } from "./prices.ts";
import { idleMonth } from "./usage.ts";

/** One item of the bill in US dollars a month. */
export interface ClusterItem {
  readonly name: string;
  readonly firstUsd: number;
  readonly furtherUsd: number;
  readonly usd: number;
}

export interface Goal {
  readonly what: string;
  readonly usd: number;
  readonly goalUsd: number;
  readonly isMet: boolean;
}

export interface ClustersReport {
  readonly count: number;
  readonly items: readonly ClusterItem[];
  /** What ElastiCache Serverless would cost as the store, instead of the items of the store above. */
  readonly serverless: readonly ClusterItem[];
  readonly residents: readonly Resident[];
  readonly goals: readonly Goal[];
}

/** Computes a month of idle `clusters` with the given parameters. */
export type IdleMonth = (clusters: number, parameters: Readonly<Record<string, string>>) => readonly Item[];

const GOAL_USD = { task: 28, inCluster: 20, further: 0.1 } as const;
/** The control planes that the goal against resident controller managers is for, and its share of their cost. */
const MANY = { clusters: 200, share: 0.05 } as const;
const WATCHER = /^watchers/;

/** @param month idle clusters only, so that the goals hold whatever the workload */
export function clustersReport(
  count: number,
  parameters: Readonly<Record<string, string>>,
  month: IdleMonth,
  counts: CountsFile,
  prices: Prices,
): ClustersReport {
  const { resident } = counts;
  const compared = (of: (clusters: number) => readonly Item[]): readonly ClusterItem[] => {
    const [one, all] = [of(1), of(count)];
    const usdIn = (items: readonly Item[], name: string): number => sumOf(items.filter((item) => item.name === name)).usd;
    const names = new Set([...one, ...all].map(({ name }) => name));
    const items = [...names].map((name): ClusterItem => {
      const [firstUsd, usd] = [usdIn(one, name), usdIn(all, name)];
      return { name, firstUsd, usd, furtherUsd: (usd - firstUsd) / (count - 1) };
    });
    return items.toSorted((a, b) => b.usd - a.usd);
  };
  return {
    count,
    items: compared((clusters) => month(clusters, parameters)),
    serverless: compared((clusters) => serverlessOf(idleMonth(counts, clusters), clusters, prices)),
    residents: residentsOfClusters(count, resident, prices),
    goals: goalsOf(parameters, month, resident, prices),
  };
}

function goalsOf(
  parameters: Readonly<Record<string, string>>,
  month: IdleMonth,
  resident: CountsFile["resident"],
  prices: Prices,
): readonly Goal[] {
  const task = (clusters: number, of = parameters): number => sumOf(month(clusters, { ...of, watcherImage: "image" })).usd;
  // a deployment of one cluster needs no Parameter Store
  const one = { ...parameters, clusters: "one" };
  const inCluster = sumOf(month(1, { ...one, watcherImage: "" }).filter(({ name }) => !WATCHER.test(name))).usd;
  const further = (task(MANY.clusters) - task(1)) / (MANY.clusters - 1);
  const [onFargate] = residentsOfClusters(MANY.clusters, resident, prices);
  const goal = (what: string, usd: number, goalUsd: number): Goal => ({ what, usd, goalUsd, isMet: usd <= goalUsd });
  return [
    goal("one idle cluster, watcher as a Fargate task", task(1, one), GOAL_USD.task),
    goal("one idle cluster, watcher in an existing cluster", inCluster, GOAL_USD.inCluster),
    goal("each further idle cluster", further, GOAL_USD.further),
    goal(`${MANY.clusters} idle clusters: 5 % of resident Fargate tasks`, task(MANY.clusters), MANY.share * (onFargate?.usd ?? 0)),
  ];
}
