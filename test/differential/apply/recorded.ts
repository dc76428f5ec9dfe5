/** Upstream's results of the first sequences, as digests. `run.ts --seeds 500 --record` writes them. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

export const RECORDED = join(import.meta.dirname, "../../captures/server-side-apply.json");

interface Recorded {
  readonly first: number;
  readonly digests: readonly string[];
}

export async function readRecorded(): Promise<Recorded> {
  return JSON.parse(await readFile(RECORDED, "utf8")) as Recorded; // written by run.ts
}
