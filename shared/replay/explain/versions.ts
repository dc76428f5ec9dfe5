/** One object of a capture at a point in time, stripped of secrets even if the capture is not. */
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
  /** The last version before the deletion. */
  readonly gone: boolean;
  readonly object: Cached;
}

/** The version at that time, with the previous and the next version. */
export interface Moment {
  readonly before?: Version;
  readonly now?: Version;
  readonly next?: Version;
}

/** Returns the moment. Consecutive equal versions count as one, and objects that cannot be cached are skipped. */
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
