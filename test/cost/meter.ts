/**
 * Counts the embedded stack's use of what AWS would bill: invocations and their duration, queue requests with their payload, bytes to
 * queues, API server and Redis, and the log lines and custom metrics that functions in Lambda would write.
 */
import { createHash } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { createEmfMetrics } from "../../shared/base/emf/emf.ts";
import { redisClient } from "../../shared/store/redis/client.ts";
import { scriptText } from "../../shared/store/redis/connection.ts";
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

/** Bytes of one ElastiCache processing unit. Source: AWS, Amazon ElastiCache pricing. */
const ECPU_BYTES = 1_024;
const SLOWLOG_ENTRIES = 500_000;
const REFERENCE_GETS = 2_000;
const OWN_COMMANDS: ReadonlySet<string> = new Set(["slowlog", "config", "info", "hello", "client"]);
/** The checkpoint script, as EVALSHA names it. */
const CHECKPOINT = createHash("sha1").update(scriptText("checkpoint")).digest("hex");

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
  /** Redis commands since the meter started, by script or name. */
  readonly commands: ReadonlyMap<string, CommandUse>;
}

/** Calls of one Redis command, and the server's median time for it. */
export interface CommandUse {
  readonly calls: number;
  readonly medianUs: number;
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
  #apiPorts: ReadonlySet<number> = new Set();
  readonly #commandUs = new Map<string, number[]>();
  #getUs = 1;
  /** Bytes of this meter's own commands, which are mostly the log of the others. */
  #ownStoreBytes = 0;
  #redis: ReturnType<typeof redisClient> | undefined;

  constructor() {
    subscribe("net.server.socket", this.#accepted);
  }

  /**
   * Sets the servers whose bytes count, because this process also has other connections. From here on, Redis logs each command with its
   * time, which `read` collects.
   */
  async started(apiUrls: readonly string[], redisUrl: string): Promise<void> {
    this.#apiPorts = new Set(apiUrls.map((url) => Number(new URL(url).port)));
    const redis = redisClient({ url: redisUrl, cluster: false });
    this.#redis = redis;
    await redis.config("SET", "slowlog-max-len", SLOWLOG_ENTRIES);
    await redis.config("SET", "slowlog-log-slower-than", 0);
    for (let i = 0; i < REFERENCE_GETS; i++) await redis.get("deltaloop:counts");
    await this.#collect(redis);
    this.#getUs = Math.max(1, median(this.#commandUs.get("get") ?? []));
    this.#commandUs.clear();
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
    for (const socket of this.#sockets) if (this.#apiPorts.has(socket.localPort ?? 0)) apiBytes += socket.bytesRead + socket.bytesWritten;
    const netBytes = async (): Promise<number> => {
      const stats = (await this.#redis?.info("stats")) ?? "";
      return [...stats.matchAll(/total_net_(?:in|out)put_bytes:(\d+)/g)].reduce((sum, [, value]) => sum + Number(value), 0);
    };
    const net = await netBytes();
    const storeBytes = net - this.#ownStoreBytes;
    if (this.#redis) await this.#collect(this.#redis);
    this.#ownStoreBytes += (await netBytes()) - net;
    const sums = {
      ...this.#requests,
      queueBytes: this.#queueBytes,
      apiBytes,
      storeBytes,
      ecpus: 0, // `between` calculates them
      checkpointEcpus: 0,
      metricBytes: this.#metricBytes,
      logBytes: this.#logBytes,
    };
    const commands = new Map([...this.#commandUs].map(([name, all]) => [name, { calls: all.length, medianUs: median(all) }] as const));
    return { atMs: Date.now(), ran: this.#ran.length, sums, commands };
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
    const storeKb = (to.sums.storeBytes - from.sums.storeBytes) / ECPU_BYTES;
    const { all, checkpoints } = this.#ecpus(from, to);
    return {
      ...{ ...to.sums, ...Object.fromEntries(sums) },
      ...{ ecpus: all + storeKb, checkpointEcpus: checkpoints, functions: Object.fromEntries(functions) },
    };
  }

  /**
   * The ECPUs of the commands' time. A command takes at least one, and as many as its time is of a GET's. AWS charges the larger of time and
   * KB; the caller adds both, because the log does not have the bytes of each command.
   */
  #ecpus(from: Reading, to: Reading): { readonly all: number; readonly checkpoints: number } {
    const each = [...to.commands].map(([name, { calls, medianUs }]) => {
      const count = calls - (from.commands.get(name)?.calls ?? 0);
      return [name, count * Math.max(1, medianUs / this.#getUs)] as const;
    });
    const sum = (of: typeof each): number => of.reduce((total, [, ecpus]) => total + ecpus, 0);
    return { all: sum(each), checkpoints: sum(each.filter(([name]) => name === CHECKPOINT)) };
  }

  /** Moves Redis' log of commands into this meter. Commands of this meter do not count. */
  async #collect(redis: ReturnType<typeof redisClient>): Promise<void> {
    // The documented reply of SLOWLOG GET: id, time, microseconds, arguments.
    const entries = (await redis.slowlog("GET", SLOWLOG_ENTRIES)) as readonly [number, number, number, readonly string[]][];
    await redis.slowlog("RESET");
    for (const [, , us, [name = "", argument = ""]] of entries) {
      const command = name.toLowerCase();
      if (OWN_COMMANDS.has(command)) continue;
      const key = command === "evalsha" ? argument : command;
      const all = this.#commandUs.get(key) ?? [];
      if (all.length === 0) this.#commandUs.set(key, all);
      all.push(us);
    }
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

function median(all: readonly number[]): number {
  return all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
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
