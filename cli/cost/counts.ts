/**
 * A workload's use of AWS, as counted by test/cost, and how often the workload occurs in a month. counts.json has the counts and their
 * dates; another file may replace it.
 */
import * as v from "valibot";
import { UsageError } from "@deltaloop/base";

const count = v.pipe(v.number(), v.finite(), v.minValue(0));

const FUNCTION = v.strictObject({
  invocations: count,
  /** Duration of all invocations, each rounded up as billed. */
  ms: count,
  /** Maximum concurrency: the number of sandboxes that start and read their secrets. */
  atOnce: count,
});
const COUNTS = v.strictObject({
  functions: v.record(v.string(), FUNCTION),
  /** Billed requests, one for each started 64 KiB, without empty polls. */
  fifo: count,
  standard: count,
  /** Bytes sent to queues, to and from the API server, and to and from the store. */
  queueBytes: count,
  apiBytes: count,
  storeBytes: count,
  /** ElastiCache processing units of all commands to the store, and of the checkpoints among them; read only of idle hours. */
  ecpus: v.optional(count, 0),
  checkpointEcpus: v.optional(count, 0),
  /** Size of metric lines that functions write to their logs, and of all other log lines of this system. */
  metricBytes: count,
  logBytes: count,
});
const FILE = v.strictObject({
  date: v.pipe(v.string(), v.isoDate()),
  commit: v.string(),
  how: v.string(),
  /** One hour without changes. */
  idleHour: COUNTS,
  /** What each further cluster without changes adds to an hour, in a deployment that serves several. */
  furtherIdleHour: COUNTS,
  /** Date and commit of `furtherIdleHour`. */
  clustersOf: v.strictObject({ date: v.pipe(v.string(), v.isoDate()), commit: v.string() }),
  /** A kube-controller-manager with the three loops and nothing to do. */
  resident: v.strictObject({ date: v.pipe(v.string(), v.isoDate()), memoryMib: count, cores: count }),
  /** Number of custom metrics in CloudWatch, in idle hours and in hours with work. */
  series: v.strictObject({ idle: count, work: count }),
  /** Duration of a sandbox's INIT phase, which is billed. */
  coldStartMs: count,
  /** Counts per event. Rollouts by size, the smallest first. */
  rollouts: v.pipe(v.array(v.strictObject({ pods: count, counts: COUNTS })), v.minLength(1)),
  created: COUNTS,
  lostPod: COUNTS,
  podChange: COUNTS,
  otherPod: COUNTS,
});

export type Counts = Readonly<v.InferOutput<typeof COUNTS>>;
export type CountsFile = Readonly<v.InferOutput<typeof FILE>>;
type Sums = Exclude<keyof Counts, "functions">;

export const SUMS = [
  "fifo",
  "standard",
  "queueBytes",
  "apiBytes",
  "storeBytes",
  "ecpus",
  "checkpointEcpus",
  "metricBytes",
  "logBytes",
] as const satisfies readonly Sums[];

/** Parses counts. @throws {UsageError} with the problem in the file `name` */
export function parseCounts(name: string, read: unknown): CountsFile {
  const parsed = v.safeParse(FILE, read);
  if (parsed.success) return parsed.output;
  throw new UsageError(parsed.issues.map((issue) => `${name}: ${v.getDotPath(issue) ?? "the file"}: ${issue.message}`).join("\n"));
}

export const NOTHING: Counts = {
  functions: {},
  fifo: 0,
  standard: 0,
  queueBytes: 0,
  apiBytes: 0,
  storeBytes: 0,
  ecpus: 0,
  checkpointEcpus: 0,
  metricBytes: 0,
  logBytes: 0,
};

/** The counts of `times` consecutive events, so concurrency stays the same. */
export function scaled(counts: Counts, times: number): Counts {
  const functions = Object.entries(counts.functions).map(
    ([name, { invocations, ms, atOnce }]) => [name, { invocations: invocations * times, ms: ms * times, atOnce }] as const,
  );
  return { ...NOTHING, ...summed(counts, (value) => value * times), functions: Object.fromEntries(functions) };
}

export function added(a: Counts, b: Counts): Counts {
  const names = new Set([...Object.keys(a.functions), ...Object.keys(b.functions)]);
  const none = { invocations: 0, ms: 0, atOnce: 0 };
  const functions = [...names].map((name) => {
    const [one, other] = [a.functions[name] ?? none, b.functions[name] ?? none];
    const atOnce = Math.max(one.atOnce, other.atOnce);
    return [name, { invocations: one.invocations + other.invocations, ms: one.ms + other.ms, atOnce }] as const;
  });
  return { ...NOTHING, ...summed(a, (value, sum) => value + b[sum]), functions: Object.fromEntries(functions) };
}

/**
 * A rollout of `pods`, interpolated linearly between the two nearest measured sizes, or extrapolated beyond them. With sizes 10 and 200, a
 * rollout of 105 pods is the mean of the two.
 */
export function rolloutOf(pods: number, rollouts: CountsFile["rollouts"]): Counts {
  const [first, ...rest] = rollouts;
  if (first === undefined) return NOTHING;
  const above = rest.findIndex((rollout) => rollout.pods >= pods);
  const upper = rest[above === -1 ? rest.length - 1 : above];
  if (upper === undefined || pods <= first.pods) return first.counts;
  const lower = rollouts[rollouts.indexOf(upper) - 1] ?? first;
  const share = (pods - lower.pods) / (upper.pods - lower.pods);
  return added(scaled(lower.counts, 1 - share), scaled(upper.counts, share));
}

function summed(counts: Counts, of: (value: number, sum: Sums) => number): Partial<Record<Sums, number>> {
  return Object.fromEntries(SUMS.map((sum) => [sum, of(counts[sum], sum)]));
}
