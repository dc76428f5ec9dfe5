/**
 * A month in an account: fixed resources and usage, item by item. Pure. Unknown amounts are estimated high rather than low, and no free
 * tier is subtracted.
 */
import type { Counts } from "./counts.ts";
import { nodePrice } from "./prices.ts";
import type { Price, PriceName, Prices } from "./prices.ts";
import { functionsOf, REGISTRY } from "@deltaloop/controllers/registry";
import type { Made, Stack } from "@deltaloop/controllers/registry";
import { MONTH_HOURS, readsOfAMonth } from "./usage.ts";
import type { Usage } from "./usage.ts";

/** One line of the bill. Quantities are in units of the price. */
export interface Item {
  readonly name: string;
  readonly price: PriceName | "node";
  readonly unit: string;
  readonly idle: number;
  readonly work: number;
  readonly idleUsd: number;
  readonly workUsd: number;
  readonly uncertain?: string;
}

export interface Assumed {
  /** Factor by which times in an account exceed those measured over loopback. */
  readonly slower: number;
  readonly coldStartMs: number;
  readonly series: { readonly idle: number; readonly work: number };
}

/** Memory of each function, in GB. */
export const FUNCTION_GB = 1;
/** Resources of each watcher. */
export const WATCHER = { cpu: 0.25, gib: 0.5 } as const;
/**
 * Queues that Lambda polls. With a maximum concurrency it always runs five pollers per queue, each with long polls of 20 s.
 *
 * Source: AWS Lambda Developer Guide, Configuring scaling behavior for SQS event source mappings. It documents standard queues; FIFO queues
 * are assumed to be the same. The length of a poll is not documented.
 */
export const POLLED = { fifo: 2, standard: 3 } as const;
const POLLS_PER_HOUR = 5 * (3_600 / 20);
/** Secrets read: MAC key, digest key, the store's password, the credential for the API server. */
const SECRETS_READ = 4;
/** Parameters of a cluster: one for each function, and the watcher's (cli/cluster.ts). */
const PARAMETERS_EACH = functionsOf(REGISTRY).length + 1;
/** Lambda's own three log lines of an invocation, with CloudWatch's overhead for each. */
const PLATFORM_LOG_BYTES = 346;
/**
 * Each hour a sender requests a data key and its decryption, a reader only the decryption. Source: AWS, Amazon SQS Developer Guide, key
 * management.
 */
const KEY_CALLS = { deltas: 3, doorbells: 3 * (2 * 5 + 1) } as const;
const GB = 1e9;

/** Metrics with `metrics=few`, and the bytes of their line. */
const FEW_METRICS = 1;
const FEW_METRICS_BYTES = 300;

/** Source: AWS, Amazon ElastiCache pricing. */
const SERVERLESS_GB_MIN = 0.1;
/** Stored for a cluster with 50 objects, each with a row of 800 bytes, twice while a new epoch is listed, and 100 KiB for everything else. */
const STORED_BYTES = 2 * 50 * 800 + 100 * 1_024;

interface Quantity {
  readonly name: string;
  readonly price: PriceName;
  readonly idle: number;
  readonly work?: number;
}

export function monthOf(stack: Stack, made: Made, usage: Usage, assumed: Assumed, prices: Prices): readonly Item[] {
  const { idle, work } = usage;
  const always = (count: number): number => count * MONTH_HOURS;
  const isThroughNat = made.natGateways > 0;
  const bytes = (of: (counts: Counts) => number) => ({ idle: of(idle) / GB, work: of(work) / GB });
  const outward = bytes((counts) => counts.apiBytes + (made.endpoints === 0 ? counts.queueBytes : 0));
  const logs = bytes((counts) => counts.logBytes + metricBytesOf(stack, counts) + invocationsOf(counts) * PLATFORM_LOG_BYTES);
  const seconds = (counts: Counts): number => (msOf(counts) * assumed.slower) / 1_000;
  const keptSandboxes = Object.values(idle.functions).reduce((sum, { atOnce }) => sum + atOnce, 0);
  const reads = {
    idle: readsOfAMonth(keptSandboxes + made.watchers, stack.secretsSeconds) * SECRETS_READ,
    work: usage.starts * SECRETS_READ,
  };
  const keyed = (calls: number): number => (stack.key === "none" ? 0 : calls);
  const { node } = made;
  const quantities: readonly Quantity[] = [
    { name: "NAT gateway", price: "natHour", idle: always(made.natGateways) },
    { name: "its public address", price: "addressHour", idle: always(made.natGateways) },
    { name: "traffic through it", price: "natGb", ...(isThroughNat ? outward : { idle: 0 }) },
    { name: `endpoints, ${made.endpoints} in ${made.zones} zones`, price: "endpointHour", idle: always(made.endpoints * made.zones) },
    { name: "traffic through them", price: "endpointGb", ...(made.endpoints > 0 ? bytes(({ queueBytes }) => queueBytes) : { idle: 0 }) },
    // Half of the traffic goes to a node in another zone, if there are several zones.
    {
      name: "traffic to the store",
      price: "zoneGb",
      ...((node.count > 0 && made.zones > 1) || made.isServerless ? bytes(({ storeBytes }) => storeBytes / 2) : { idle: 0 }),
    },
    { name: `watchers, ${made.watchers}: CPU`, price: "fargateCpuHour", idle: always(made.watchers * WATCHER.cpu) },
    { name: `watchers, ${made.watchers}: memory`, price: "fargateGbHour", idle: always(made.watchers * WATCHER.gib) },
    { name: `watchers, ${made.watchers}: public address`, price: "addressHour", idle: always(made.addresses) },
    { name: "KMS key", price: "kmsKey", idle: made.keys },
    {
      name: "KMS requests",
      price: "kmsRequest",
      idle: keyed(reads.idle + KEY_CALLS.deltas * MONTH_HOURS),
      work: keyed(reads.work + KEY_CALLS.doorbells * usage.workHours),
    },
    { name: "secrets", price: "secret", idle: made.secrets },
    { name: "reads of secrets", price: "secretRead", ...reads },
    { name: "alarms", price: "alarm", idle: made.alarms },
    ...(usage.clusters > 1 ? [{ name: "parameters", price: "parameter" as const, idle: usage.clusters * PARAMETERS_EACH }] : []),
    { name: "custom metrics", price: "metric", ...customMetrics(stack, usage, assumed) },
    { name: "logs", price: "logGb", ...logs },
    { name: "logs, kept 30 days", price: "logStoredGb", ...logs },
    { name: "Lambda: requests", price: "lambdaRequest", idle: invocationsOf(idle), work: invocationsOf(work) },
    {
      name: "Lambda: time",
      price: "lambdaGbSecond",
      idle: FUNCTION_GB * seconds(idle),
      work: FUNCTION_GB * (seconds(work) + (usage.starts * assumed.coldStartMs * assumed.slower) / 1_000),
    },
    { name: "SQS FIFO: empty polls", price: "sqsFifo", idle: always(POLLED.fifo * POLLS_PER_HOUR) },
    { name: "SQS FIFO: messages", price: "sqsFifo", idle: idle.fifo, work: work.fifo },
    { name: "SQS: empty polls", price: "sqsStandard", idle: always(POLLED.standard * POLLS_PER_HOUR) },
    { name: "SQS: messages", price: "sqsStandard", idle: idle.standard, work: work.standard },
  ];
  const stored = { name: `store, ${node.count} × ${node.type}`, price: "node" as const, idle: always(node.count), work: 0 };
  const items = quantities.map(({ work: used = 0, ...rest }) => priced({ ...rest, work: used }, prices.prices[rest.price]));
  const all = [
    ...(node.count > 0 ? [priced(stored, nodePrice(prices, node.type))] : []),
    ...(made.isServerless ? serverlessOf(idle, usage.clusters, prices, work.ecpus) : []),
    ...items,
  ];
  return all.filter(({ idle: idleUse, work: workUse }) => idleUse + workUse > 0);
}

/** A month of ElastiCache Serverless for Valkey as the store. */
export function serverlessOf({ ecpus, checkpointEcpus }: Counts, clusters: number, { prices }: Prices, workEcpus = 0): readonly Item[] {
  const gb = Math.max(SERVERLESS_GB_MIN, (clusters * STORED_BYTES) / GB);
  const of = (name: string, price: PriceName, idle: number, work = 0): Item => priced({ name, price, idle, work }, prices[price]);
  return [
    of("store: data", "storeGbHour", gb * MONTH_HOURS),
    of("store: ECPUs of checkpoints", "ecpu", checkpointEcpus),
    of("store: ECPUs of other commands", "ecpu", ecpus - checkpointEcpus, workEcpus),
  ];
}

function customMetrics({ metrics }: Stack, { workHours }: Usage, { series }: Assumed): { readonly idle: number; readonly work?: number } {
  if (metrics === "none") return { idle: 0 };
  return metrics === "few" ? { idle: FEW_METRICS } : { idle: series.idle, work: (series.work * workHours) / MONTH_HOURS };
}

/** With `few`, only the function sweep writes a line, once a minute. */
function metricBytesOf({ metrics }: Stack, { metricBytes, functions }: Counts): number {
  if (metrics === "few") return (functions["sweep"]?.invocations ?? 0) * FEW_METRICS_BYTES;
  return metrics === "emf" ? metricBytes : 0;
}

export function sumOf(items: readonly Item[]): { readonly idleUsd: number; readonly workUsd: number; readonly usd: number } {
  const sum = (of: (item: Item) => number): number => items.reduce((all, item) => all + of(item), 0);
  return {
    idleUsd: sum(({ idleUsd }) => idleUsd),
    workUsd: sum(({ workUsd }) => workUsd),
    usd: sum((each) => each.idleUsd + each.workUsd),
  };
}

function priced(item: Pick<Item, "name" | "price" | "idle" | "work">, { usd, per, unit, uncertain }: Price): Item {
  const cost = (quantity: number): number => (quantity * usd) / per;
  return { ...item, unit, idleUsd: cost(item.idle), workUsd: cost(item.work), ...(uncertain !== undefined && { uncertain }) };
}

function invocationsOf({ functions }: Counts): number {
  return Object.values(functions).reduce((sum, { invocations }) => sum + invocations, 0);
}

function msOf({ functions }: Counts): number {
  return Object.values(functions).reduce((sum, { ms }) => sum + ms, 0);
}
