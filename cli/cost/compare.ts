/** Compares a month with a resident pod that does the same work, and with other parameters. */
import type { CountsFile } from "./counts.ts";
import type { Item } from "./month.ts";
import { sumOf } from "./month.ts";
import type { Prices } from "./prices.ts";
import { MONTH_HOURS } from "./usage.ts";
import { UsageError } from "@deltaloop/base";

/** A pod that always runs, at Fargate's prices. */
export interface Resident {
  readonly name: string;
  readonly usd: number;
}

/** Resources of a controller manager: CPU share, and memory for the cache. */
const RESIDENTS = [
  { count: 1, cpu: 0.5, gib: 1 },
  { count: 1, cpu: 1, gib: 2 },
  { count: 2, cpu: 1, gib: 2 },
] as const;

/** Controller managers of `count` control planes: Fargate's smallest tasks, and the measured memory and CPU on nodes that are filled. */
export function residentsOfClusters(count: number, { memoryMib, cores }: CountsFile["resident"], { prices }: Prices): readonly Resident[] {
  const { cpu, gib } = SMALLEST_TASK;
  const onFargate = cpu * prices.fargateCpuHour.usd + gib * prices.fargateGbHour.usd;
  const onNodes = cores * prices.nodeCpuHour.usd + (memoryMib / MIB_PER_GIB) * prices.nodeGbHour.usd;
  return [
    { name: `Fargate tasks of ${cpu} vCPU and ${gib} GiB`, usd: count * MONTH_HOURS * onFargate },
    { name: `${memoryMib} MiB (PSS), ${cores} cores each on nodes`, usd: count * MONTH_HOURS * onNodes },
  ];
}

export function residentsOf({ prices }: Prices): readonly Resident[] {
  return RESIDENTS.map(({ count, cpu, gib }) => ({
    name: `${count === 1 ? "one" : "two"} of ${cpu} vCPU and ${gib} GiB`,
    usd: count * MONTH_HOURS * (cpu * prices.fargateCpuHour.usd + gib * prices.fargateGbHour.usd),
  }));
}

const SMALLEST_TASK = { cpu: 0.25, gib: 0.5 } as const;
const MIB_PER_GIB = 1_024;

/** Parameters of a deployment that change its cost, and what each requires. */
const CHOICES: readonly { readonly parameter: string; readonly wants: string }[] = [
  { parameter: "profile=lean", wants: "one zone, durability class C, AWS services over IPv6, fewer secrets and alarms" },
  { parameter: "natGateway=false", wants: "an API server with a private address" },
  { parameter: "endpoints=false", wants: "the NAT gateway, or endpoints that the VPC has" },
  { parameter: "store=given", wants: "a Redis or Valkey server that exists already" },
  { parameter: "metrics=none", wants: "no graphs of functions, no alarms on gates, guard and parked keys" },
  { parameter: "keyArn=none", wants: "encryption with AWS-owned keys" },
  { parameter: "watcherImage=", wants: "watchers that run in a cluster, at the same assumed cost" },
];

/** The saving of each choice that changes the cost of `parameters`; `month` computes it. */
export function savingsOf(
  parameters: Readonly<Record<string, string>>,
  month: (parameters: Readonly<Record<string, string>>) => readonly Item[],
): readonly { readonly parameter: string; readonly wants: string; readonly usd: number }[] {
  const { usd } = sumOf(month(parameters));
  return CHOICES.flatMap(({ parameter, wants }) => {
    const [name = "", value = ""] = parameter.split("=");
    if (parameters[name] === value) return [];
    const cost = costIfPriced(() => month({ ...parameters, [name]: value }));
    return cost === undefined ? [] : [{ parameter, wants, usd: usd - cost }];
  })
    .filter((saving) => saving.usd >= 0.005)
    .toSorted((a, b) => b.usd - a.usd);
}

/** Undefined if the prices lack an item of the choice, such as its node type. */
function costIfPriced(month: () => readonly Item[]): number | undefined {
  try {
    return sumOf(month()).usd;
  } catch (error) {
    if (error instanceof UsageError) return undefined;
    throw error;
  }
}
