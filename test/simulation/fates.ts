/**
 * A process of ours that may be killed or suspended at any call: its dependencies are wrapped, and never respond after the process is
 * killed. The effects of earlier calls remain.
 */
import type { Clock } from "../../shared/base/clock.ts";
import { eachAnswer } from "../support/each-answer.ts";

export interface FateOptions {
  readonly clock: Clock;
  /** Decides the fate of the process at each response: it continues, is killed, or is suspended for this many milliseconds. */
  readonly draw: () => "live" | "die" | number;
  /** Called when the process is killed or suspended. */
  readonly onFate?: (what: "die" | "freeze", ms: number) => void;
}

export class Fate {
  readonly #options: FateOptions;
  readonly #died = new AbortController();
  #frozenUntilMs = 0;

  constructor(options: FateOptions) {
    this.#options = options;
  }

  /** Aborts when the process is killed, without running any of its code. */
  get died(): AbortSignal {
    return this.#died.signal;
  }

  die(): void {
    if (!this.died.aborted) this.#died.abort(new Error("the process was killed"));
  }

  /** Returns these dependencies with every method wrapped for this process. */
  over<T extends object>(ports: T): T {
    const wrapped = new Map<string | symbol, unknown>();
    return new Proxy(ports, {
      get: (target, property) => {
        const known = wrapped.get(property);
        if (known !== undefined) return known;
        // A method of a port is wrapped; everything else is passed through.
        const value: unknown = Reflect.get(target, property);
        if (typeof value !== "function") return value;
        const method = (...parameters: readonly unknown[]): unknown => {
          const answer: unknown = Reflect.apply(value, target, parameters);
          if (answer instanceof Promise) return this.#answer(answer);
          return isStream(answer) ? eachAnswer(answer, (next) => this.#answer(next)) : answer;
        };
        wrapped.set(property, method);
        return method;
      },
    });
  }

  clock(): Clock {
    const { clock } = this.#options;
    return { now: () => clock.now(), after: (ms, signal) => this.#thawed(clock.after(ms, signal)) };
  }

  /** Returns the response, or never: the process may be killed between the effect of a call and its response. */
  async #answer<T>(answer: Promise<T>): Promise<T> {
    const settled = await settle(answer);
    await this.#strike();
    return unsettle(settled);
  }

  async #thawed<T>(answer: Promise<T>): Promise<T> {
    const settled = await settle(answer);
    await this.#thaw();
    return unsettle(settled);
  }

  async #strike(): Promise<void> {
    if (this.died.aborted) return never();
    const fate = this.#options.draw();
    if (fate === "die") {
      this.#options.onFate?.("die", 0);
      this.die();
      return never();
    }
    if (fate !== "live") {
      this.#options.onFate?.("freeze", fate);
      this.#frozenUntilMs = Math.max(this.#frozenUntilMs, this.#options.clock.now() + fate);
    }
    await this.#thaw();
  }

  async #thaw(): Promise<void> {
    while (!this.died.aborted && this.#frozenUntilMs > this.#options.clock.now()) {
      await this.#options.clock.after(this.#frozenUntilMs - this.#options.clock.now());
    }
    if (this.died.aborted) await never();
  }
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

type Settled<T> = { readonly value: T } | { readonly error: unknown };

function settle<T>(answer: Promise<T>): Promise<Settled<T>> {
  return answer.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}

function unsettle<T>(settled: Settled<T>): T {
  // The port's rejection is passed on unchanged.
  // oxlint-disable-next-line typescript/only-throw-error
  if ("error" in settled) throw settled.error;
  return settled.value;
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}
