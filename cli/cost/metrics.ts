/**
 * A month's use of AWS, from the functions' metrics at `/metrics` (docs/reference/metrics.md), instead of from rates:
 * of `deltaloop dev`, also in shadow beside a cluster's own controllers, for a day or so.
 *
 * Counted there are messages, doorbells and the time of syncs. What each of them asks of AWS is taken from counts.json, as if none shared a
 * batch with another.
 */
import { LANES } from "@deltaloop/store/ports";
import { UsageError } from "@deltaloop/base";
import { NOTHING, scaled } from "./counts.ts";
import type { Counts, CountsFile } from "./counts.ts";
import { MONTH_HOURS, READS_PER_HOUR } from "./usage.ts";
import type { Usage } from "./usage.ts";

/** Sums of a time, over all labels. */
export interface Measured {
  readonly hours: number;
  readonly messages: number;
  readonly doorbells: number;
  readonly syncSeconds: number;
  readonly requests: number;
}

const LANE_COUNT = Object.values(LANES).reduce((sum, lanes) => sum + lanes, 0);
/** Of each lane, a heartbeat every 15 s; bookmarks, about one a minute, come in its place. */
const IDLE_MESSAGES_PER_HOUR = LANE_COUNT * 240;
/** To send, to receive and to delete. */
const REQUESTS = 3;
/** Of a request to the API server with its answer, or of an event of its watch; events of 5.6 KB are what the benches have. */
const API_BYTES = 6_000;
const SYNC_FUNCTIONS = 3;

/**
 * `text`: the metrics of a process, read at `readAtMs`. Counted since the process began, unless `hours` says otherwise.
 *
 * @throws {UsageError} when it is not what functions tell
 */
export function measuredIn(name: string, text: string, readAtMs: number, hours?: number): Measured {
  const sums = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, metric, value] = /^(\w+)(?:\{.*\})? ([-+\d.eE]+|NaN|[-+]?Inf)(?: \d+)?$/.exec(line) ?? [];
    if (metric !== undefined) sums.set(metric, (sums.get(metric) ?? 0) + Number(value));
  }
  const of = (metric: string): number => sums.get(metric) ?? 0;
  if (!sums.has("deltaloop_messages_total") && !text.includes("# TYPE deltaloop_messages_total"))
    throw new UsageError(`${name} has no deltaloop_messages_total: it is not from /metrics of the function host of deltaloop dev`);
  const began = sums.get("process_start_time_seconds");
  if (hours === undefined && began === undefined) throw new UsageError(`${name} has no start time of its process: pass --over DURATION`);
  const counted = hours ?? (readAtMs / 1_000 - (began ?? 0)) / 3_600;
  if (!(counted > 0)) throw new UsageError(`${name} covers no time: pass --over DURATION`);
  return {
    hours: counted,
    messages: of("deltaloop_messages_total"),
    doorbells: of("deltaloop_doorbells_total"),
    syncSeconds: of("workqueue_work_duration_seconds_sum"),
    requests: of("rest_client_requests_total"),
  };
}

/** A month at that pace; what idles is as it was counted. */
export function usageOfMeasured(file: CountsFile, { hours, ...measured }: Measured): Usage {
  const month = (sum: number): number => (sum * MONTH_HOURS) / hours;
  const messages = month(Math.max(0, measured.messages - IDLE_MESSAGES_PER_HOUR * hours));
  const [doorbells, syncMs, requests] = [month(measured.doorbells), month(measured.syncSeconds * 1_000), month(measured.requests)];
  const { functions, ...change } = file.podChange;
  const each = (name: string) => functions[name] ?? { invocations: 1, ms: 1, atOnce: 1 };
  const [apply, sync] = [each("apply-deltas"), each("sync-replicaset")];
  const perInvocation = ({ invocations, ms }: typeof apply): number => (invocations > 0 ? ms / invocations : 0);
  const work: Counts = {
    ...NOTHING,
    functions: {
      "apply-deltas": { invocations: messages, ms: messages * perInvocation(apply), atOnce: apply.atOnce },
      // Beside the sync itself there is the looking for its key, which alone is what a change of nothing takes.
      sync: { invocations: doorbells, ms: doorbells * perInvocation(sync) + syncMs, atOnce: sync.atOnce },
    },
    fifo: messages * REQUESTS,
    standard: doorbells * REQUESTS,
    queueBytes: Math.max(messages, doorbells) * change.queueBytes,
    apiBytes: (messages + requests) * API_BYTES,
    storeBytes: Math.max(messages, doorbells) * change.storeBytes,
    metricBytes: Math.max(messages, doorbells) * change.metricBytes,
  };
  return {
    idle: scaled(file.idleHour, MONTH_HOURS),
    work,
    starts: Math.min(doorbells * sync.atOnce, SYNC_FUNCTIONS * sync.atOnce * READS_PER_HOUR * MONTH_HOURS),
    workHours: Math.min(MONTH_HOURS, doorbells + messages),
  };
}
