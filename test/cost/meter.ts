/**
 * Counts the embedded stack's use of what AWS would bill: invocations and their duration, queue requests with their payload, bytes to
 * queues, API server and Redis, and the log lines and custom metrics that functions in Lambda would write.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { createEmfMetrics } from "../../shared/base/emf/emf.ts";
import { redisClient } from "../../shared/store/redis/client.ts";
import type { SqsCalls } from "../../shared/store/sqs/calls.ts";
import type { Invocation } from "../../shared/local/event-source-mapping.ts";
import type { Log } from "../../shared/base/log.ts";
import type { Metrics } from "../../shared/base/metrics/metrics.ts";
import type { Counts } from "../../cli/cost/counts.ts";

/** Bytes per billed SQS request. Source: AWS, Amazon SQS pricing. */
const CHUNK_BYTES = 64 * 1024;
/** Bytes that CloudWatch Logs adds to each line. Source: AWS, Amazon CloudWatch Logs API reference, PutLogEvents. */
const LINE_BYTES = 26;
/** Bytes of the headers of a signed request and its response, including TLS overhead. */
const HEADER_BYTES = 1_500;
/** Bytes that our logger adds to a message and its fields: level, time, service, function, request. */
const LOGGER_BYTES = 400;

interface Ran {
  readonly function: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** All counts so far. */
export interface Reading {
  readonly atMs: number;
  readonly ran: number;
  readonly sums: Omit<Counts, "functions">;
}

export class Meter {
  readonly #ran: Ran[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #requests = { fifo: 0, standard: 0 };
  #queueBytes = 0;
  #metricBytes = 0;
  #logBytes = 0;
  /** Metric names with their dimensions; each is billed as a custom metric. */
  readonly series = new Set<string>();
  #apiPort = 0;
  #redis: ReturnType<typeof redisClient> | undefined;

  constructor() {
    subscribe("net.server.socket", this.#accepted);
  }

  /** Sets the servers whose bytes count, because this process also has other connections. */
  started(apiUrl: string, redisUrl: string): void {
    this.#apiPort = Number(new URL(apiUrl).port);
    this.#redis = redisClient({ url: redisUrl, cluster: false });
  }

  readonly onInvocation = ({ function: name, durationMs }: Invocation): void => {
    const now = Date.now();
    this.ran(name, now - durationMs, now);
  };

  ran(name: string, fromMs: number, toMs: number): void {
    this.#ran.push({ function: name, fromMs, toMs });
  }

  readonly metrics = (name: string): Metrics =>
    createEmfMetrics({
      namespace: "deltaloop/prod",
      dimensions: { function: name },
      now: Date.now,
      write: (line) => {
        this.#metricBytes += Buffer.byteLength(line) + LINE_BYTES;
        const { _aws, ...told } = JSON.parse(line) as EmfLine; // a line of our own metrics
        for (const { Dimensions, Metrics: metrics } of _aws.CloudWatchMetrics)
          for (const { Name } of metrics)
            this.series.add(
              `${Name} ${Dimensions.flat()
                .map((each) => String(told[each]))
                .join()}`,
            );
      },
    });

  /** The log of our functions and watcher; levels below info are not written and cost nothing. */
  readonly log: Log = {
    debug: () => undefined,
    info: (...line) => this.#wrote(line),
    warn: (...line) => this.#wrote(line),
    error: (...line) => this.#wrote(line),
  };

  readonly sqs = (calls: SqsCalls): SqsCalls => ({
    ...calls,
    call: async (action, input, options) => {
      const answer = await calls.call(action, input, options);
      const { Messages } = answer as { readonly Messages?: readonly { readonly Body?: string }[] }; // the output of ReceiveMessage
      // Lambda's pollers wait differently from ours, so their empty receives are calculated, not counted.
      if (action === "ReceiveMessage" && (Messages ?? []).length === 0) return answer;
      const { Entries } = input as { readonly Entries?: readonly { readonly MessageBody?: string }[] }; // the input of SendMessageBatch
      const bodies = [...(Messages ?? []).map(({ Body = "" }) => Body), ...(Entries ?? []).map(({ MessageBody = "" }) => MessageBody)];
      const bytes = bodies.reduce((sum, body) => sum + Buffer.byteLength(body), 0);
      this.#requests[input.QueueUrl?.endsWith(".fifo") ? "fifo" : "standard"] += Math.max(1, Math.ceil(bytes / CHUNK_BYTES));
      // Lambda's polling of a queue is counted separately from the sends of functions and watcher.
      if (action === "SendMessageBatch" || action === "ChangeMessageVisibilityBatch")
        this.#queueBytes += Buffer.byteLength(JSON.stringify([input, answer])) + HEADER_BYTES;
      return answer;
    },
  });

  async read(): Promise<Reading> {
    let apiBytes = 0;
    for (const socket of this.#sockets) if (socket.localPort === this.#apiPort) apiBytes += socket.bytesRead + socket.bytesWritten;
    const stats = (await this.#redis?.info("stats")) ?? "";
    const storeBytes = [...stats.matchAll(/total_net_(?:in|out)put_bytes:(\d+)/g)].reduce((sum, [, value]) => sum + Number(value), 0);
    const sums = {
      ...this.#requests,
      queueBytes: this.#queueBytes,
      apiBytes,
      storeBytes,
      metricBytes: this.#metricBytes,
      logBytes: this.#logBytes,
    };
    return { atMs: Date.now(), ran: this.#ran.length, sums };
  }

  /** The counts between two readings. */
  between(from: Reading, to: Reading): Counts {
    const byName = Map.groupBy(this.#ran.slice(from.ran, to.ran), (ran) => ran.function);
    const functions = [...byName].map(([name, all]) => {
      const ms = all.reduce((sum, { fromMs, toMs }) => sum + Math.max(1, Math.ceil(toMs - fromMs)), 0);
      return [name, { invocations: all.length, ms, atOnce: mostAtOnce(all) }] as const;
    });
    // both have the same keys
    const sums = Object.entries(to.sums).map(([sum, value]) => [sum, value - from.sums[sum as keyof Reading["sums"]]] as const);
    return { ...to.sums, ...Object.fromEntries(sums), functions: Object.fromEntries(functions) };
  }

  stop(): void {
    unsubscribe("net.server.socket", this.#accepted);
    this.#redis?.disconnect();
  }

  readonly #accepted = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket }; // the documented message of this channel
    this.#sockets.add(socket);
  };

  #wrote(line: readonly unknown[]): void {
    this.#logBytes += Buffer.byteLength(JSON.stringify(line)) + LOGGER_BYTES + LINE_BYTES;
  }
}

interface EmfLine extends Readonly<Record<string, unknown>> {
  readonly _aws: {
    readonly CloudWatchMetrics: readonly {
      readonly Dimensions: readonly (readonly string[])[];
      readonly Metrics: readonly { readonly Name: string }[];
    }[];
  };
}

/** An invocation that starts when another ends reuses its sandbox. */
function mostAtOnce(ran: readonly Ran[]): number {
  const steps = ran
    .flatMap(({ fromMs, toMs }) => [
      { atMs: fromMs, by: 1 },
      { atMs: toMs, by: -1 },
    ])
    .toSorted((a, b) => a.atMs - b.atMs || a.by - b.by);
  let [now, most] = [0, 1];
  for (const { by } of steps) most = Math.max(most, (now += by));
  return most;
}
