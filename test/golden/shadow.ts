/** The recordings of test/captures as read by shared/replay/shadow. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

import { SYNC_HANDLERS } from "../../cli/functions/sync-handlers.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { type CapturedObject } from "../../shared/replay/capture-format/capture.ts";
import type { SyncPlace } from "../../shared/replay/shadow/one-sync.ts";
import { History, type Change } from "../../shared/replay/shadow/states.ts";
import { writesOfAudit, type UpstreamWrite } from "../../shared/replay/shadow/upstream-writes.ts";
import { releaseOfCapture } from "../captures/releases.ts";
import { changesOf, readCapture } from "../support/held-capture.ts";

export interface Recording {
  /** The context of our syncs, with the rules of the recorded release. */
  readonly place: Required<SyncPlace>;
  /** The changes, sorted by version; a recording contains one namespace. */
  readonly changes: readonly Change[];
  readonly history: History;
  /** Upstream's accepted writes from the audit log; empty without one. */
  readonly writes: readonly UpstreamWrite[];
}

const digester = createDigester("0123456789abcdef0123456789abcdef");

export function readRecording(name: string): Recording {
  const audit = fileOf(`${name}.audit`);
  const release = releaseOfCapture(name);
  const changes = changesOf(readCapture(fileOf(`${name}.watch`)), { name, digester, malformed: unexpected });
  return {
    place: { handlers: SYNC_HANDLERS, digester, release: () => release },
    changes,
    history: new History(changes),
    writes: existsSync(audit) ? writesOfAudit(readLines(audit), name) : [],
  };
}

function unexpected(what: string): never {
  throw new Error(what);
}

function fileOf(name: string): string {
  return fileURLToPath(new URL(`../captures/${name}.jsonl.gz`, import.meta.url));
}

function readLines(file: string): readonly CapturedObject[] {
  const text = gunzipSync(readFileSync(file)).toString();
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as CapturedObject); // this project wrote the recordings
}
