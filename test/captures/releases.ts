/** The Kubernetes version with which each `NAME.watch.jsonl.gz` was recorded; these captures do not contain it. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { ALL_RELEASES, releaseOf } from "../../shared/kube/releases.ts";
import type { Release } from "../../shared/kube/releases.ts";

const FILE = join(import.meta.dirname, "releases.json");

/** @throws {Error} for a capture without a Kubernetes version, or with one that `shared/kube/releases` does not know */
export function releaseOfCapture(name: string): Release {
  const release = releaseOf(versions()[name] ?? "", ALL_RELEASES);
  if (release === undefined) throw new Error(`test/captures/releases.json has no known version for ${name}`);
  return release;
}

export function noteVersion(name: string, version: string): void {
  const noted = Object.entries({ ...versions(), [name]: version }).toSorted(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(FILE, `${JSON.stringify(Object.fromEntries(noted), undefined, 2)}\n`);
}

function versions(): Readonly<Record<string, string>> {
  return JSON.parse(readFileSync(FILE, "utf8")) as Readonly<Record<string, string>>; // written above
}
