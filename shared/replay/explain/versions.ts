/** One object of a capture as it stood at a moment, as a stripped capture has it: without secrets, also where the capture is not stripped. */
import type { Cached } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import type { CaptureRecord } from "../capture-format/capture.ts";
import { keyOf } from "../capture-format/captured-object.ts";
import type { Subject } from "./story.ts";
import { redacted } from "../capture-format/redact.ts";

export interface Version {
  readonly atMs: number;
  readonly version: string;
  readonly uid: string;
  /** It was this when it went. */
  readonly gone: boolean;
  readonly object: Cached;
}

/** What it was then, what it had been before, and what it became. */
export interface Moment {
  readonly before?: Version;
  readonly now?: Version;
  readonly next?: Version;
}

/** Versions count once each, in the order in which they were told; what cannot be cached is left out. */
export async function versionAt(
  batches: AsyncIterable<readonly CaptureRecord[]>,
  { subject, atMs }: { readonly subject: Subject; readonly atMs: number },
  digester: Digester,
): Promise<Moment> {
  const seen = new Set<string>();
  let moment: Moment = {};
  for await (const batch of batches)
    for (const record of batch) {
      const version = versionOf(record, subject, digester);
      if (version === undefined) continue;
      const id = `${version.uid} ${version.version} ${version.gone}`;
      if (seen.has(id)) continue;
      seen.add(id);
      if (version.atMs > atMs) return { ...moment, next: version };
      moment = { ...(moment.now && { before: moment.now }), now: version };
    }
  return moment;
}

function versionOf({ atMs, resource, object, type }: CaptureRecord, subject: Subject, digester: Digester): Version | undefined {
  if (resource !== subject.resource || object === undefined || type === "BOOKMARK" || type === "ERROR") return undefined;
  if (keyOf(object) !== `${subject.namespace}/${subject.name}`) return undefined;
  try {
    const stripped = redacted(resource, object, digester);
    const { uid, resourceVersion: version } = "metadata" in stripped ? stripped.metadata : stripped;
    return { atMs, version, uid, gone: type === "DELETED", object: stripped };
  } catch {
    return undefined;
  }
}
