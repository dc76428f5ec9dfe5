/**
 * A work queue of the node, keyed by pod. It is in memory only; after a restart of the host, the due times enqueue the pods again.
 *
 * TQ1 the handler never runs twice at a time for one pod. It runs for up to `concurrencyMax` pods in parallel, in the order of arrival.
 * TQ2 waiting messages of one pod are merged. A message that arrives while the handler runs is handled afterwards.
 * TQ3 a message that failed is retried `RETRY_MS` after the start of the handler; after `ATTEMPTS_MAX` it is dropped.
 * TQ4 a handler that exceeds its timeout counts as failed: its slot is freed, and its late result is ignored.
 */
import type { NodeHandler, NodeMessage } from "../kubelet/node-ports/node-ports.ts";
import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";

/** Well above the duration of a sync iteration, which does not wait for slow operations and limits its other steps. */
const HANDLER_TIMEOUT_MS = 110_000;
/** Above `HANDLER_TIMEOUT_MS`, so that a retry never overlaps the failed run. */
const RETRY_MS = 120_000;
/** Attempts per message. After the last one, the pod's due time enqueues it again. */
const ATTEMPTS_MAX = 5;

interface Waiting {
  readonly message: NodeMessage;
  /** Failed attempts for this message. */
  readonly failures: number;
}

export interface PodQueueOptions {
  /** Name of the queue in log messages. */
  readonly name: string;
  readonly concurrencyMax: number;
  readonly clock: Clock;
  readonly log: Log;
}

export class PodQueue {
  readonly #options: PodQueueOptions;
  /** Waiting messages by pod UID, oldest first. */
  readonly #waiting = new Map<string, Waiting>();
  /** Pods whose handler is running, or has failed and is not due for a retry yet. */
  readonly #held = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #handler: NodeHandler | undefined;

  constructor(options: PodQueueOptions) {
    this.#options = options;
  }

  /** The number of pods with a waiting, running or failed message. */
  get size(): number {
    return new Set([...this.#waiting.keys(), ...this.#held]).size;
  }

  /** Enqueues a message. Messages that arrive before `start` are handled after it. */
  send(message: NodeMessage): void {
    if (!this.#waiting.has(message.uid)) this.#waiting.set(message.uid, { message, failures: 0 });
    this.#dispatch();
  }

  start(handler: NodeHandler): void {
    this.#handler = handler;
    this.#dispatch();
  }

  /** Starts no further handlers; resolves when the running handlers have ended. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#running);
  }

  #dispatch(): void {
    const { signal } = this.#stopping;
    for (const [uid, waiting] of this.#waiting) {
      if (this.#handler === undefined || signal.aborted || this.#running.size >= this.#options.concurrencyMax) return;
      if (this.#held.has(uid)) continue;
      this.#waiting.delete(uid);
      this.#held.add(uid);
      const handling = this.#handle(this.#handler, waiting).finally(() => {
        this.#running.delete(handling);
        this.#dispatch();
      });
      this.#running.add(handling);
    }
  }

  async #handle(handler: NodeHandler, { message, failures }: Waiting): Promise<void> {
    const { name, clock, log } = this.#options;
    const { uid } = message;
    const retryAtMs = clock.now() + RETRY_MS;
    try {
      await this.#withTimeout(handler, message);
      this.#held.delete(uid);
    } catch (error) {
      log.error("handler failed", { what: name, pod: uid, attempt: failures + 1, error: describeError(error) });
      void this.#holdUntil(retryAtMs, { message, failures: failures + 1 });
    }
  }

  /** @throws the handler's error, even one that is thrown synchronously, or a timeout error */
  async #withTimeout(handler: NodeHandler, message: NodeMessage): Promise<void> {
    const over = new AbortController();
    const limit = this.#options.clock.after(HANDLER_TIMEOUT_MS, over.signal).then(() => {
      throw new Error(`timed out after ${HANDLER_TIMEOUT_MS} ms`);
    });
    // The timeout may reject after Promise.race has settled, so its rejection is handled here.
    limit.catch(() => undefined);
    try {
      await Promise.race([Promise.resolve().then(() => handler(message)), limit]);
    } finally {
      over.abort("settled");
    }
  }

  async #holdUntil(retryAtMs: number, failed: Waiting): Promise<void> {
    const { clock } = this.#options;
    const { uid } = failed.message;
    await clock.after(Math.max(0, retryAtMs - clock.now()), this.#stopping.signal).catch(() => undefined);
    this.#held.delete(uid);
    // If another message has arrived for the pod in the meantime, that message replaces this one and starts with no failures.
    if (failed.failures < ATTEMPTS_MAX && !this.#waiting.has(uid)) this.#waiting.set(uid, failed);
    this.#dispatch();
  }
}
