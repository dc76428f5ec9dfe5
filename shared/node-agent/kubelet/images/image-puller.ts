/**
 * The one line in which a node's image pulls stand (node-agent §8).
 *
 * IP1 at most so many pulls go on at once as the policy says: one, a number, or all of them. Who came first goes first.
 * IP2 who does not want it any more leaves the line at once, and takes nothing from those behind.
 * IP3 a pull whose turn has come spends a token; without one it fails and asks no registry. With 0 a second nobody counts.
 * IP4 it keeps nothing that matters: a place stands for an operation (operations.ts), lives as long as that, and is asked for anew after
 *    a restart, like the pull itself. Equal images are pulled as often as they are asked for, as upstream does.
 *
 * At most as many wait as there are pods: pulls of one follow each other.
 *
 * Source: pkg/kubelet/images/puller.go, helpers.go.
 */
import { takeToken } from "@deltaloop/base";
import type { TokenBucket, Clock } from "@deltaloop/base";
import { pullsAtOnce } from "./pull-policy.ts";
import type { ImagePullPolicy } from "../types/node-options.ts";

/** More were to be pulled than the policy lets through. Normal where many pods start at once; the pod backs off. */
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

  /** What `act` gives once its turn has come, and how long that took. @throws {PullQpsError} @throws why `signal` was aborted */
  async pull<T>(signal: AbortSignal, act: () => Promise<T>): Promise<{ readonly value: T; readonly pullMs: number }> {
    await this.#turn(signal);
    const startedMs = this.#clock.now();
    try {
      this.#spend(startedMs);
      return { value: await act(), pullMs: this.#clock.now() - startedMs };
    } finally {
      this.#pulling--;
      this.#next();
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    const leave = (): void => {
      this.#waiting.delete(turn.resolve);
      turn.reject(signal.reason);
    };
    this.#waiting.add(turn.resolve);
    signal.addEventListener("abort", leave, { once: true });
    this.#next();
    await turn.promise.finally(() => signal.removeEventListener("abort", leave));
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
