/**
 * fauxqs, an SQS emulator, on a loopback port of this process.
 *
 * Calls from this process skip HTTP: they run the handler of the emulator's route, as Fastify's `inject` would, for 5 µs instead of 140.
 * They also wait for messages without the emulator's own long poll, which checks each queue every 20 ms.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { awsError } from "@deltaloop/store/aws";
import type { SqsCalls } from "@deltaloop/store/sqs";
import { unlessAborted } from "@deltaloop/base";

export interface OwnSqs {
  /** The endpoint URL for `sqsClient`. */
  readonly endpoint: string;
  /** Calls the emulator without a socket. An aborted ReceiveMessage takes no message. */
  readonly calls: SqsCalls;
  stop(): Promise<void>;
}

/** The fields of requests on which it depends when messages become visible. */
interface Input {
  readonly QueueUrl?: string;
  readonly WaitTimeSeconds?: number;
  readonly DelaySeconds?: number;
  readonly VisibilityTimeout?: number;
  readonly Entries?: readonly Pick<Input, "DelaySeconds" | "VisibilityTimeout">[];
}

interface Answer {
  readonly Messages?: readonly unknown[];
}

/** What the handler of the route uses of Fastify's request and reply. */
type Handler = (
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: object },
  reply: { status(code: number): void; header(): void },
) => Promise<Answer>;

/** A message whose visibility timeout ends is noticed within this time. */
const RECHECK_MS = 1_000;
const headersOf = (action: string) => ({ "content-type": "application/x-amz-json-1.0", "x-amz-target": `AmazonSQS.${action}` });

/** Starts the emulator in this process. Port 0, the default, selects a free one. (fauxqs' own start function listens on all interfaces.) */
export async function startFauxqs(options: { readonly port?: number } = {}): Promise<OwnSqs> {
  const { buildApp } = await import("fauxqs"); // loaded only when used, because the import is slow
  const app = buildApp({ logger: false });
  const arrivals = new Arrivals();
  let handler: Handler | undefined;
  app.addHook("onRequest", (request, _reply, done) => {
    handler ??= request.routeOptions.handler as unknown as Handler; // the first request, below, is for the route of SQS
    done();
  });
  app.addHook("onSend", ({ headers, body }, _reply, payload, done) => {
    if (headers["x-amz-target"] !== "AmazonSQS.ReceiveMessage") arrivals.changed((body ?? {}) as Input); // the route has answered
    done(null, payload);
  });
  await app.inject({ method: "POST", url: "/", headers: headersOf("ListQueues"), payload: "{}" });
  const endpoint = await app.listen({ port: options.port ?? 0, host: "127.0.0.1" });

  async function ask(action: string, input: object): Promise<Answer> {
    let code = 200;
    const reply = { status: (given: number) => void (code = given), header: () => undefined };
    const answer = await handler?.({ headers: headersOf(action), body: input }, reply);
    if (answer === undefined || code !== 200) throw awsError(action, JSON.stringify(answer), code);
    return answer;
  }

  async function receive(input: Input, signal: AbortSignal | undefined): Promise<Answer> {
    if (arrivals.haveEnded) {
      // Without a timer, a poller that asks again at once would stop the event loop, and this process would never end.
      const waited = sleep(RECHECK_MS, undefined, { ref: false });
      await (signal === undefined ? waited : unlessAborted(waited, signal));
      return {};
    }
    const endMs = performance.now() + (input.WaitTimeSeconds ?? 0) * 1_000;
    for (;;) {
      const seen = arrivals.changesOf(input);
      const answer = await ask("ReceiveMessage", { ...input, WaitTimeSeconds: 0 });
      const leftMs = endMs - performance.now();
      if (answer.Messages !== undefined || leftMs <= 0 || arrivals.haveEnded) return answer;
      await arrivals.next(input, { seen, ms: Math.min(leftMs, RECHECK_MS), ...(signal && { signal }) });
    }
  }

  const calls: SqsCalls = {
    async call(action, input, { signal } = {}) {
      signal?.throwIfAborted();
      if (action === "ReceiveMessage") return (await receive(input as Input, signal)) as never; // the action determines the type
      const answer = ask(action, input);
      const answered = await (signal === undefined ? answer : unlessAborted(answer, signal));
      arrivals.changed(input as Input);
      return answered as never; // as above
    },
    close: () => undefined,
  };
  const stop = async (): Promise<void> => {
    arrivals.end();
    await app.close();
  };
  return { endpoint, calls, stop };
}

/** Wakes the local receivers of a queue when one of its messages may have become visible. */
class Arrivals {
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Number of changes by queue. */
  readonly #changes = new Map<string, number>();
  haveEnded = false;

  changesOf(input: Input): number {
    return this.#changes.get(queueOf(input)) ?? 0;
  }

  /** After a request other than ReceiveMessage: a removal, too, makes the next message of its group visible. */
  changed(input: Input): void {
    const queue = queueOf(input);
    this.#wake(queue);
    const delays = [input, ...(input.Entries ?? [])].flatMap(({ DelaySeconds = 0, VisibilityTimeout = 0 }) => [
      DelaySeconds,
      VisibilityTimeout,
    ]);
    for (const seconds of new Set(delays)) if (seconds > 0) setTimeout(() => this.#wake(queue), seconds * 1_000 + 1).unref();
  }

  /** Resolves once the queue has had more than `seen` changes, after `ms` at the latest. */
  async next(
    input: Input,
    { seen, ms, signal }: { readonly seen: number; readonly ms: number; readonly signal?: AbortSignal },
  ): Promise<void> {
    if (this.changesOf(input) !== seen) return;
    const queue = queueOf(input);
    const waiting = this.#waiting.get(queue) ?? new Set();
    this.#waiting.set(queue, waiting);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    waiting.add(resolve);
    try {
      await (signal === undefined ? promise : unlessAborted(promise, signal));
    } finally {
      clearTimeout(timer);
      waiting.delete(resolve);
    }
  }

  end(): void {
    this.haveEnded = true;
    for (const queue of this.#waiting.keys()) this.#wake(queue);
  }

  #wake(queue: string): void {
    this.#changes.set(queue, (this.#changes.get(queue) ?? 0) + 1);
    for (const resolve of this.#waiting.get(queue) ?? []) resolve();
  }
}

/** The queue's name: clients may write its URL with different hosts. */
function queueOf({ QueueUrl = "" }: Input): string {
  return QueueUrl.slice(QueueUrl.lastIndexOf("/") + 1);
}
