/** Distributes seeds over worker threads: each thread runs one seed at a time. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { messageOf } from "../../shared/kube/objects/errors.ts";
import { runSeed } from "./levels.ts";
import type { SeedResult, SeedSettings } from "./levels.ts";

export interface ThreadsOptions {
  readonly settings: SeedSettings;
  readonly seeds: Iterable<number>;
  /** The number of threads. With 1, seeds run in the calling thread, so that a profiler can observe them. */
  readonly workers: number;
  /** Stops after the current seeds. */
  readonly signal: AbortSignal;
  readonly onResult: (result: SeedResult) => void;
  /** Receives each step; only supported with one worker. */
  readonly trace?: (line: string) => void;
}

export async function runSeeds({ settings, seeds, workers, signal, onResult, trace }: ThreadsOptions): Promise<void> {
  const left = seeds[Symbol.iterator]();
  const work = async (run: (seed: number) => Promise<SeedResult>): Promise<void> => {
    while (!signal.aborted) {
      const { done, value: seed } = left.next();
      if (done === true) return;
      onResult(await run(seed));
    }
  };
  if (workers === 1) return await work((seed) => runSeed(settings, seed, trace));
  const threads = Array.from({ length: workers }, () => new Thread(settings));
  try {
    await Promise.all(threads.map((thread) => work((seed) => thread.run(seed))));
  } finally {
    await Promise.all(threads.map((thread) => thread.end()));
  }
}

class Thread {
  readonly #settings: SeedSettings;
  #worker: Worker | undefined;

  constructor(settings: SeedSettings) {
    this.#settings = settings;
  }

  /** Runs a seed. An uncaught error ends the thread, and counts as the seed's violation. */
  async run(seed: number): Promise<SeedResult> {
    const worker = (this.#worker ??= new Worker(new URL("worker.ts", import.meta.url), { workerData: this.#settings }));
    try {
      worker.postMessage(seed);
      const [result] = (await once(worker, "message")) as [SeedResult]; // posted by worker.ts
      return result;
    } catch (error) {
      this.#worker = undefined;
      return { seed, violations: [{ rule: "uncaught", what: messageOf(error) }], stats: {} };
    }
  }

  async end(): Promise<void> {
    await this.#worker?.terminate();
  }
}
