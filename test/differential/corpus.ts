/** The lives that every run of the tests plays, and upstream's answers to them as recorded (test/captures/differential). */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import type { Controller } from "../../shared/kube/objects/resources.ts";
import type { Outcome } from "./outcome.ts";

const FILE = join(import.meta.dirname, "..", "captures", "differential", "syncs.json.gz");

/** One outcome a sync. */
export interface RecordedLife {
  readonly controller: Controller;
  readonly seed: number;
  readonly outcomes: readonly Outcome[];
}

export async function readCorpus(): Promise<readonly RecordedLife[]> {
  return JSON.parse(gunzipSync(await readFile(FILE)).toString("utf8")) as readonly RecordedLife[]; // written below
}

export async function writeCorpus(lives: readonly RecordedLife[]): Promise<void> {
  await writeFile(FILE, gzipSync(JSON.stringify(lives), { level: 9 }));
}
