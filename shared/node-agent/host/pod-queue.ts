/**
 * A work queue of the node, keyed by pod. In memory only: after a crash of the host the due times enqueue the pods again.
 *
 * TQ1 the handler runs once at a time for one pod, and for `concurrencyMax` pods in parallel, in the order of arrival.
 * TQ2 messages of one pod that wait are one message. One that arrives while the handler runs is handled after it.
 * TQ3 a message that failed is retried `AGAIN_MS` after the start of the handler; after `ATTEMPTS_MAX` it is dropped.
 * TQ4 a handler that exceeds its limit has failed: its slot is free, and its late result is ignored.
 */
import type { NodeHandler, NodeMessage } from "../kubelet/node-ports/node-ports.ts";
import type { Clock, Log } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";

/** A turn hardly waits for what takes long, and its other steps have limits of their own. */
const HANDLER_TIMEOUT_MS = 110_000;
/** Longer than any turn, so that none is doubled. */
const AGAIN_MS = 120_000;
/** Of one message; due times bring the work again. */
const ATTEMPTS_MAX = 5;

interface Waiting {
  readonly message: NodeMessage;
  /** That failed, of this message. */
  readonly failures: number;
}

export interface PodQueueOptions {
  /** For the log. */
  readonly name: string;
  readonly concurrencyMax: number;
  readonly clock: Clock;
  readonly log: Log;
}

export class PodQueue {
  readonly #options: PodQueueOptions;
  /** By pod, those first that have waited longest. */
  readonly #waiting = new Map<string, Waiting>();
  /** Pods with a turn that runs, or that failed and is not due again. */
  readonly #held = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  #handler: NodeHandler | undefined;

  constructor(options: PodQueueOptions) {
    this.#options = options;
  }

  /** Pods with a message that waits, a turn, or one that failed and is not due again. */
  get size(): number {
    return new Set([...this.#waiting.keys(), ...this.#held]).size;
  }

  /** What is sent before `start` waits for it. */
  send(message: NodeMessage): void {
    if (!this.#waiting.has(message.uid)) this.#waiting.set(message.uid, { message, failures: 0 });
    this.#dispatch();
  }

  start(handler: NodeHandler): void {
    this.#handler = handler;
    this.#dispatch();
  }

  /** Begins no more turns; resolves when those that run have ended. */
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
      const turn = this.#turn(this.#handler, waiting).finally(() => {
        this.#running.delete(turn);
        this.#dispatch();
      });
      this.#running.add(turn);
    }
  }

  async #turn(handler: NodeHandler, { message, failures }: Waiting): Promise<void> {
    const { name, clock, log } = this.#options;
    const { uid } = message;
    const againMs = clock.now() + AGAIN_MS;
    try {
      await this.#inTime(handler, message);
      this.#held.delete(uid);
    } catch (error) {
      log.error("a turn failed", { what: name, pod: uid, attempt: failures + 1, error: describeError(error) });
      void this.#holdUntil(againMs, { message, failures: failures + 1 });
    }
  }

  /** @throws what the handler throws, also before its first await, and when its time is over */
  async #inTime(handler: NodeHandler, message: NodeMessage): Promise<void> {
    const over = new AbortController();
    const limit = this.#options.clock.after(HANDLER_TIMEOUT_MS, over.signal).then(() => {
      throw new Error(`timed out after ${HANDLER_TIMEOUT_MS} ms`);
    });
    // Also when no caller waits for it any more.
    limit.catch(() => undefined);
    try {
      await Promise.race([Promise.resolve().then(() => handler(message)), limit]);
    } finally {
      over.abort("over");
    }
  }

  async #holdUntil(againMs: number, failed: Waiting): Promise<void> {
    const { clock } = this.#options;
    const { uid } = failed.message;
    await clock.after(Math.max(0, againMs - clock.now()), this.#stopping.signal).catch(() => undefined);
    this.#held.delete(uid);
    // A message that came meanwhile says the same, and has its own tries.
    if (failed.failures < ATTEMPTS_MAX && !this.#waiting.has(uid)) this.#waiting.set(uid, failed);
    this.#dispatch();
  }
}
