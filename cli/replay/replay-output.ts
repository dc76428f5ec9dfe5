/** Prints a replay's text, and selects its parts. */
import { createInterface } from "node:readline/promises";
import type { Interface } from "node:readline/promises";
import type { ReplayedSync } from "@deltaloop/replay/replay";

export interface ReplayOutput {
  print(text: string): void;
  /** Waits until the output accepts more. Returns false if the user quits. */
  goesOn(): Promise<boolean>;
  end(): void;
}

/** Writes to standard output as fast as it is read. */
export class Output implements ReplayOutput {
  print(text: string): void {
    if (text !== "") process.stdout.write(text);
  }

  async goesOn(): Promise<boolean> {
    if (process.stdout.writableNeedDrain) await new Promise((resolve) => process.stdout.once("drain", resolve));
    return true;
  }

  end(): void {}
}

/** Steps on a terminal: Enter prints one sync, a number prints that many, and q quits. */
export class Steps implements ReplayOutput {
  #texts: string[] = [];
  #terminal: Interface | undefined;
  #shown = 0;
  #free = 0;

  print(text: string): void {
    if (text !== "") this.#texts.push(text);
  }

  async goesOn(): Promise<boolean> {
    for (const text of this.#texts.splice(0)) {
      process.stdout.write(text);
      this.#shown++;
      if (this.#free > 0) this.#free--;
      else {
        this.#terminal ??= createInterface({ input: process.stdin, output: process.stdout });
        // Ctrl-D and Ctrl-C act like q.
        const answer = (await this.#terminal.question(`(${this.#shown}) `).catch(() => "q")).trim();
        if (answer === "q") return false;
        this.#free = Math.max(0, (Number.parseInt(answer, 10) || 1) - 1);
      }
    }
    return true;
  }

  end(): void {
    this.#terminal?.close();
  }
}

/** Collects the last sync of each key before a moment, and the first sync after the moment. */
export class AroundMoment {
  readonly #atMs: number;
  readonly #near = new Map<string, { last?: Numbered; next?: Numbered }>();
  #count = 0;

  constructor(atMs: number) {
    this.#atMs = atMs;
  }

  see(key: string, sync: ReplayedSync): void {
    const near = this.#near.get(key) ?? {};
    this.#near.set(key, near);
    const numbered = { sync, number: this.#count++ };
    if (near.next !== undefined) return;
    if (sync.atMs > this.#atMs) near.next = numbered;
    else near.last = numbered;
  }

  /** Returns the selected syncs in the order of arrival. */
  chosen(): readonly ReplayedSync[] {
    return [...this.#near.values()]
      .flatMap(({ last, next }) => [last, next].filter((each) => each !== undefined))
      .toSorted((a, b) => a.number - b.number)
      .map(({ sync }) => sync);
  }
}

interface Numbered {
  readonly sync: ReplayedSync;
  readonly number: number;
}
