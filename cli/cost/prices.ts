/** Unit prices as data, with their date and source page: prices.json, or a file for another region or contract. */
import * as v from "valibot";
import { UsageError } from "@deltaloop/base";

const amount = v.pipe(v.number(), v.finite(), v.minValue(0));
const PRICE = v.strictObject({
  usd: amount,
  /** Number of units that this price is for. */
  per: v.pipe(v.number(), v.minValue(1)),
  unit: v.string(),
  source: v.string(),
  /** Unknown parts of the price. */
  uncertain: v.optional(v.string()),
});

export const PRICE_NAMES = [
  "lambdaRequest",
  "lambdaGbSecond",
  "sqsStandard",
  "sqsFifo",
  "natHour",
  "natGb",
  "addressHour",
  "endpointHour",
  "endpointGb",
  "zoneGb",
  "fargateCpuHour",
  "fargateGbHour",
  "nodeCpuHour",
  "nodeGbHour",
  "storeGbHour",
  "ecpu",
  "parameter",
  "kmsKey",
  "kmsRequest",
  "secret",
  "secretRead",
  "metric",
  "alarm",
  "logGb",
  "logStoredGb",
] as const;
export type PriceName = (typeof PRICE_NAMES)[number];

const FILE = v.strictObject({
  date: v.pipe(v.string(), v.isoDate()),
  region: v.string(),
  about: v.string(),
  prices: v.record(v.picklist(PRICE_NAMES), PRICE),
  /** Price of a store node per hour, by node type. */
  nodes: v.record(v.string(), PRICE),
});

export type Price = Readonly<v.InferOutput<typeof PRICE>>;

export interface Prices {
  readonly date: string;
  readonly region: string;
  readonly about: string;
  readonly prices: { readonly [P in PriceName]: Price };
  readonly nodes: Readonly<Record<string, Price>>;
}

/** Parses prices. @throws {UsageError} with the invalid or missing entry of the file `name` */
export function parsePrices(name: string, read: unknown): Prices {
  const parsed = v.safeParse(FILE, read);
  if (!parsed.success)
    throw new UsageError(parsed.issues.map((issue) => `${name}: ${v.getDotPath(issue) ?? "the file"}: ${issue.message}`).join("\n"));
  const { prices, ...rest } = parsed.output;
  const missing = PRICE_NAMES.filter((price) => prices[price] === undefined);
  if (missing.length > 0) throw new UsageError(`${name}: prices has no ${missing.join(", ")}`);
  return { ...rest, prices: prices as Prices["prices"] }; // has all names
}

/** Returns the price of a node type. @throws {UsageError} if the file does not have it */
export function nodePrice({ nodes, region, date }: Prices, type: string): Price {
  const price = nodes[type];
  if (price === undefined)
    throw new UsageError(
      `the prices of ${region}, ${date}, have no node type ${type}, only ${Object.keys(nodes).join(", ")}: add it with --prices`,
    );
  return price;
}
