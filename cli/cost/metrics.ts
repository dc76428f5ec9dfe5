/**
 * A month's use of AWS, from the functions' metrics at `/metrics` (docs/reference/metrics.md), instead of from rates. A source is for example a day of `deltaloop dev`, possibly in shadow mode next to a cluster's own controllers.
 *
 * The metrics count messages with changes, doorbells and the time of syncs. The AWS use of each is taken from counts.json, as if each were in
 * a separate batch. Heartbeats are part of the idle use.
 */
import { UsageError } from "@deltaloop/base";
import { NOTHING } from "./counts.ts";
import type { Counts, CountsFile } from "./counts.ts";
import { idleMonth, MONTH_HOURS, READS_PER_HOUR } from "./usage.ts";
import type { Usage } from "./usage.ts";

/** Sums over a period, over all labels. */
export interface Measured {
  readonly hours: number;
  /** Those with changes, each as often as it was received. */
  readonly messages: number;
  readonly doorbells: number;
  readonly syncSeconds: number;
  readonly requests: number;
}

/** Requests per message: send, receive and delete. */
const REQUESTS = 3;
/** Size of a request to the API server with its response, or of a watch event; the benchmarks use events of 5.6 KB. */
const API_BYTES = 6_000;
const SYNC_FUNCTIONS = 3;

/**
 * `text`: the metrics of a process, read at `readAtMs`. They cover the time since the process start, or `hours` if given.
 *
 * @throws {UsageError} if `text` is not the metrics of functions
 */
export function measuredIn(name: string, text: string, readAtMs: number, hours?: number): Measured {
  const sums = new Map<string, number>();
  let retries = 0;
  for (const line of text.split("\n")) {
    const [, metric, labels = "", value] = /^(\w+)(\{.*\})? ([-+\d.eE]+|NaN|[-+]?Inf)(?: \d+)?$/.exec(line) ?? [];
    if (metric === undefined) continue;
    sums.set(metric, (sums.get(metric) ?? 0) + Number(value));
    if (metric === "deltaloop_messages_total" && labels.includes('verdict="retry"')) retries += Number(value);
  }
  const of = (metric: string): number => sums.get(metric) ?? 0;
  if (!sums.has("deltaloop_messages_total") && !text.includes("# TYPE deltaloop_messages_total"))
    throw new UsageError(`${name} has no deltaloop_messages_total: it is not from /metrics of the function host of deltaloop dev`);
  const began = sums.get("process_start_time_seconds");
  if (hours === undefined && began === undefined) throw new UsageError(`${name} has no process_start_time_seconds: pass --over DURATION`);
  const counted = hours ?? (readAtMs / 1_000 - (began ?? 0)) / 3_600;
  if (!(counted > 0)) throw new UsageError(`${name} covers a duration of 0: pass --over DURATION`);
  return {
    hours: counted,
    messages: of("deltaloop_delta_lag_seconds_count") + retries, // the lag is observed for messages with changes only
    doorbells: of("deltaloop_doorbells_total"),
    syncSeconds: of("workqueue_work_duration_seconds_sum"),
    requests: of("rest_client_requests_total"),
  };
}

/** Returns a month at the measured rate, with the idle use of counts.json. */
export function usageOfMeasured(file: CountsFile, { hours, ...measured }: Measured, clusters = 1): Usage {
  const month = (sum: number): number => (sum * MONTH_HOURS) / hours;
  const [messages, doorbells, requests] = [month(measured.messages), month(measured.doorbells), month(measured.requests)];
  const syncMs = month(measured.syncSeconds * 1_000);
  const { functions, ...change } = file.podChange;
  const each = (name: string) => functions[name] ?? { invocations: 1, ms: 1, atOnce: 1 };
  const [apply, sync] = [each("apply-deltas"), each("sync-replicaset")];
  const perInvocation = ({ invocations, ms }: typeof apply): number => (invocations > 0 ? ms / invocations : 0);
  const work: Counts = {
    ...NOTHING,
    functions: {
      "apply-deltas": { invocations: messages, ms: messages * perInvocation(apply), atOnce: apply.atOnce },
      // Each sync also takes its key; a sync without a change costs nothing else.
      sync: { invocations: doorbells, ms: doorbells * perInvocation(sync) + syncMs, atOnce: sync.atOnce },
    },
    fifo: messages * REQUESTS,
    standard: doorbells * REQUESTS,
    queueBytes: Math.max(messages, doorbells) * change.queueBytes,
    apiBytes: (messages + requests) * API_BYTES,
    storeBytes: Math.max(messages, doorbells) * change.storeBytes,
    ecpus: Math.max(messages, doorbells) * change.ecpus,
    metricBytes: Math.max(messages, doorbells) * change.metricBytes,
  };
  return {
    clusters,
    idle: idleMonth(file, clusters),
    work,
    starts: Math.min(doorbells * sync.atOnce, SYNC_FUNCTIONS * sync.atOnce * READS_PER_HOUR * MONTH_HOURS),
    workHours: Math.min(MONTH_HOURS, doorbells + messages),
  };
}
