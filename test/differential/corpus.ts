/** The histories that every test run replays, with upstream's recorded results (test/captures/differential), one file per version. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import type { Controller } from "../../shared/kube/objects/resources.ts";
import { RELEASED, releaseOf, type Release } from "../../shared/kube/releases.ts";
import type { Outcome } from "./outcome.ts";

const FOLDER = join(import.meta.dirname, "..", "captures", "differential");

/** One outcome for each sync. */
export interface RecordedLife {
  readonly controller: Controller;
  readonly seed: number;
  readonly outcomes: readonly Outcome[];
}

export interface Corpus {
  /** The version of the recorded controllers. */
  readonly version: string;
  readonly release: Release;
  readonly lives: readonly RecordedLife[];
}

export async function readCorpora(): Promise<readonly Corpus[]> {
  const files = (await readdir(FOLDER)).toSorted();
  return await Promise.all(
    files.map(async (file) => {
      const version = /^syncs-(.*)\.json\.gz$/.exec(file)?.[1] ?? "";
      const release = releaseOf(version, RELEASED);
      if (release === undefined) throw new Error(`the release of ${file} is not in shared/kube/releases`);
      const text = gunzipSync(await readFile(join(FOLDER, file))).toString("utf8");
      return { version, release, lives: JSON.parse(text) as readonly RecordedLife[] }; // this module wrote the file
    }),
  );
}

export async function writeCorpus(version: string, lives: readonly RecordedLife[]): Promise<void> {
  await writeFile(join(FOLDER, `syncs-${version}.json.gz`), gzipSync(JSON.stringify(lives), { level: 9 }));
}
