/** Other processes' load on this machine. */
import { availableParallelism } from "node:os";

import { idleCoreSeconds } from "./process-usage.ts";

const LOOK_MS = 500;
/** Above this load other processes affect the measurements. */
const BUSY_CORES_MAX = 0.3;

/** Returns a clause that describes the other load, for the output. Call it while the measured process is idle. */
export async function othersAtWork(): Promise<string> {
  const busy = await busyCores();
  return `others keep ${busy.toFixed(1)} of ${availableParallelism()} cores busy${busy > BUSY_CORES_MAX ? ", and share in these figures" : ""}`;
}

/** Returns how many cores are busy while this process is idle. */
async function busyCores(): Promise<number> {
  const [before, start] = [idleCoreSeconds(), performance.now()];
  await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  return Math.max(0, availableParallelism() - ((idleCoreSeconds() - before) * 1_000) / (performance.now() - start));
}
