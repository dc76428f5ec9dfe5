/** The processes of a schedule. One process runs at a time until it waits, ends or dies; the seed determines which one runs next. */
import type { Random } from "../../../shared/base/random.ts";

interface Waiting {
  readonly atMs: number;
  /** The clock does not advance beyond this process's due time. */
  readonly punctual: boolean;
  readonly go: () => void;
}

export class Scheduler {
  readonly #random: Random;
  readonly #onError: (error: unknown) => void;
  readonly #onDeath: () => void;
  #waiting: Waiting[] = [];
  #settled: () => void = () => undefined;
  nowMs: number;
  /** The share of waits at which a process dies. */
  deaths = 0;

  constructor(random: Random, nowMs: number, onError: (error: unknown) => void, onDeath: () => void) {
    this.#random = random;
    this.nowMs = nowMs;
    this.#onError = onError;
    this.#onDeath = onDeath;
  }

  get size(): number {
    return this.#waiting.length;
  }

  spawn(body: () => Promise<void>, afterMs = 0): void {
    const go = (): void =>
      void body()
        .catch(this.#onError)
        .finally(() => this.#settled());
    this.#waiting.push({ atMs: this.nowMs + afterMs, punctual: afterMs > 0, go });
  }

  /** Pauses the running process so that others may run. A process that dies here never continues. */
  pause(ms = 0): Promise<void> {
    return new Promise((resolve) => {
      if (this.#random.next() >= this.deaths) this.#waiting.push({ atMs: this.nowMs + ms, punctual: false, go: resolve });
      else this.#onDeath();
      this.#settled();
    });
  }

  /** Runs one due process; returns false if none is due. */
  async step(): Promise<boolean> {
    const due = this.#waiting.filter(({ atMs }) => atMs <= this.nowMs);
    const next = due[Math.floor(this.#random.next() * due.length)];
    if (!next) return false;
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    const settled = new Promise<void>((resolve) => (this.#settled = resolve));
    next.go();
    await settled;
    return true;
  }

  advance(ms: number): void {
    const punctual = Math.min(...this.#waiting.filter((each) => each.punctual).map(({ atMs }) => atMs));
    this.nowMs = Math.max(this.nowMs, Math.min(this.nowMs + ms, punctual));
  }
}
