/** One object of a capture, version by version, as a stripped capture has it: without secrets, also where the capture is not stripped. */
import type { Cached } from "../api/cached.ts";
import type { Digester } from "../api/digest.ts";
import type { CachedResource } from "../api/resources.ts";
import type { CaptureRecord } from "./capture.ts";
import { redacted } from "./redact.ts";

export interface Version {
  readonly atMs: number;
  readonly version: string;
  readonly uid: string;
  /** It was this when it went. */
  readonly gone: boolean;
  readonly object: Cached;
}

/** Each once, in the order in which they were told; what cannot be cached is left out. */
export function versionsOf(
  records: readonly CaptureRecord[],
  { resource, namespace, name }: { readonly resource: CachedResource; readonly namespace: string; readonly name: string },
  digester: Digester,
): readonly Version[] {
  const seen = new Set<string>();
  return records.flatMap((record) => {
    if (record.resource !== resource || record.object === undefined || record.type === "BOOKMARK" || record.type === "ERROR") return [];
    const object = stripped(record, digester);
    if (object === undefined) return [];
    const { namespace: its, name: called, uid, resourceVersion: version } = "metadata" in object ? object.metadata : object;
    const gone = record.type === "DELETED";
    const id = `${uid} ${version} ${gone}`;
    if (its !== namespace || called !== name || seen.has(id)) return [];
    seen.add(id);
    return [{ atMs: record.atMs, version, uid, gone, object }];
  });
}

function stripped({ resource, object }: CaptureRecord, digester: Digester): Cached | undefined {
  try {
    return redacted(resource, object, digester);
  } catch {
    return undefined;
  }
}
