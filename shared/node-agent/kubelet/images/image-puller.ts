/**
 * The node's queue of image pulls (node-agent §8).
 *
 * IP1 the policy limits concurrent pulls to one or N, or does not limit them. The queue is FIFO.
 * IP2 an aborted pull leaves the queue at once and does not delay other pulls.
 * IP3 each started pull takes a token; without one it fails without a registry call. Rate 0 is unlimited.
 * IP4 the queue is in memory only: each entry belongs to an operation (operations.ts), which is requested again after a restart. Equal
 *    images are not deduplicated, as in upstream.
 *
 * The queue holds at most one pull per pod. Source: pkg/kubelet/images/puller.go, helpers.go.
 */
import { takeToken, type TokenBucket, type Clock } from "@deltaloop/base";
import { pullsAtOnce } from "./pull-policy.ts";
import type { ImagePullPolicy } from "../types/node-options.ts";

/** The pull rate limit is exceeded. This is normal when many pods start simultaneously; the pod backs off. */
class PullQpsError extends Error {
  override readonly name = "PullQpsError";

  constructor() {
    super("pull QPS exceeded");
  }
}

export class ImagePuller {
  readonly #clock: Pick<Clock, "now">;
  readonly #policy: ImagePullPolicy;
  readonly #waiting = new Set<() => void>();
  #pulling = 0;
  #bucket: TokenBucket | undefined;

  constructor(clock: Pick<Clock, "now">, policy: ImagePullPolicy) {
    this.#clock = clock;
    this.#policy = policy;
  }

  /** Runs `act` when a slot is free; returns its result and duration. @throws {PullQpsError}, or the reason of an aborted `signal` */
  async pull<T>(signal: AbortSignal, act: () => Promise<T>): Promise<{ readonly value: T; readonly pullMs: number }> {
    await this.#acquireSlot(signal);
    const startedMs = this.#clock.now();
    try {
      this.#spend(startedMs);
      return { value: await act(), pullMs: this.#clock.now() - startedMs };
    } finally {
      this.#pulling--;
      this.#next();
    }
  }

  async #acquireSlot(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const slot = Promise.withResolvers<void>();
    const leave = (): void => {
      this.#waiting.delete(slot.resolve);
      slot.reject(signal.reason);
    };
    this.#waiting.add(slot.resolve);
    signal.addEventListener("abort", leave, { once: true });
    this.#next();
    await slot.promise.finally(() => signal.removeEventListener("abort", leave));
  }

  #next(): void {
    for (const begin of this.#waiting) {
      if (this.#pulling >= pullsAtOnce(this.#policy)) return;
      this.#waiting.delete(begin);
      this.#pulling++;
      begin();
    }
  }

  #spend(nowMs: number): void {
    const { registryQps, registryBurst } = this.#policy;
    if (registryQps === 0) return;
    const left = takeToken(this.#bucket, { perSecond: registryQps, burst: registryBurst }, nowMs);
    if (left === undefined) throw new PullQpsError();
    this.#bucket = left;
  }
}
