/** A worker thread of threads.ts: receives a seed in each message and posts its result. */
import { parentPort, workerData } from "node:worker_threads";
import { runSeed } from "./levels.ts";
import type { SeedSettings } from "./levels.ts";

parentPort?.on("message", (seed: number) => {
  // threads.ts passes its settings. An error ends the thread, and threads.ts reports it for this seed.
  void runSeed(workerData as SeedSettings, seed).then((result) => parentPort?.postMessage(result));
});
