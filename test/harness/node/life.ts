/**
 * One process lifetime of a node agent: wraps the agent's dependencies, which never respond after the process has ended. Effects of
 * earlier calls remain.
 */
import type { Clock } from "../../../shared/base/clock.ts";
import { eachAnswer } from "../../support/each-answer.ts";

export interface Call {
  readonly port: "cri" | "kube" | "files" | "cgroups" | "prober" | "logind";
  readonly verb: string;
  readonly args: readonly unknown[];
}

/** The outcome of a call: it is delayed, it fails, its response is lost, or the process ends before or after its execution. */
export type CallFate =
  | "live"
  | "dieBefore"
  | "dieAfter"
  | { readonly after: Promise<unknown> }
  | { readonly fail: Error }
  | { readonly lose: Error };

export class Life {
  readonly #died = new AbortController();
  readonly #fateOf: (call: Call) => CallFate;

  constructor(fateOf: (call: Call) => CallFate) {
    this.#fateOf = fateOf;
  }

  get isOver(): boolean {
    return this.#died.signal.aborted;
  }

  die(): void {
    this.#died.abort(new Error("the process was killed"));
  }

  clock(clock: Clock): Clock {
    return { now: () => clock.now(), after: (ms, signal) => (this.isOver ? never() : this.#answer(clock.after(ms, signal))) };
  }

  over<T extends object>(port: Call["port"], target: T): T {
    return new Proxy(target, {
      get: (object, property) => {
        // A method of a port; all other properties are passed through.
        const value: unknown = Reflect.get(object, property);
        if (typeof value !== "function") return value;
        return (...args: readonly unknown[]): unknown =>
          this.#call({ port, verb: String(property), args }, () => Reflect.apply(value, object, args));
      },
    });
  }

  #call(call: Call, execute: () => unknown): unknown {
    if (this.isOver) return never();
    const fate = this.#fateOf(call);
    if (fate === "dieBefore") {
      this.die();
      return never();
    }
    if (typeof fate === "object") {
      if ("fail" in fate) return Promise.reject(fate.fail);
      if ("lose" in fate) return this.#answer(Promise.resolve(execute()).then(() => Promise.reject(fate.lose)));
      return this.#answer(fate.after.then(() => (this.isOver ? never() : execute())));
    }
    const answer = execute();
    if (isStream(answer)) return eachAnswer(answer, (next) => this.#answer(next));
    return answer instanceof Promise ? this.#answer(answer, fate === "dieAfter") : answer;
  }

  async #answer<T>(answer: Promise<T>, isLast = false): Promise<T> {
    try {
      return await answer;
    } finally {
      if (isLast) this.die();
      // The process has ended: neither value nor error reaches a caller.
      // oxlint-disable-next-line no-unsafe-finally
      if (this.isOver) await never();
    }
  }
}

function isStream(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}
