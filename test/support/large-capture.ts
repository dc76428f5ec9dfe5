/**
 * Captures of any size, as `deltaloop capture` writes them: Deployments that roll one after the other (long-capture.ts), with objects as
 * large as in a typical cluster, redacted unless `whole` is set.
 */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { createGzip } from "node:zlib";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { recorded } from "../../shared/replay/capture-format/redact.ts";
import { KIND_SAMPLES, template } from "../bench/objects.ts";
import { longCapture } from "./long-capture.ts";
import type { LongCaptureOptions } from "./long-capture.ts";

export interface LargeCaptureOptions extends Omit<LongCaptureOptions, "recorded" | "containers"> {
  /** Ends after this many events, or this much text. */
  readonly events?: number;
  readonly bytes?: number;
  /** Whether to write whole objects, as `capture --no-redact` does. */
  readonly whole?: boolean;
}

interface Whole {
  readonly metadata: object;
  readonly status: object;
}

const { containers } = template().spec as unknown as { readonly containers: readonly object[] };
const SAMPLES = new Map(KIND_SAMPLES.map(({ resource, object }) => [resource, object as Whole]));
const HEADER = JSON.stringify({ t: "2026-03-01T10:00:00.000000Z", k: "meta", format: 2, server: "https://example", raw: false });

/** Writes gzip if the name ends in .gz. @returns the number of events */
export async function writeLargeCapture(path: string, options: LargeCaptureOptions): Promise<number> {
  const { events: eventsMax = Infinity, bytes: bytesMax = Infinity, whole = false, ...life } = options;
  const digester = createDigester("a key of a generated capture alone");
  const recordedAs = (resource: CachedResource, object: object): object => {
    const full = asLarge(resource, object as Whole);
    return whole ? { object: full } : (recorded(resource, full, digester) ?? {});
  };
  const file = createWriteStream(path);
  const out = path.endsWith(".gz") ? createGzip({ level: 1 }) : file;
  if (out !== file) out.pipe(file);
  out.write(`${HEADER}\n`);
  let [bytes, events] = [0, 0];
  for (const line of longCapture({ ...life, containers, recorded: recordedAs })) {
    bytes += line.length + 1;
    if (!line.includes('"k":"')) events++;
    if (!out.write(`${line}\n`)) await once(out, "drain");
    if (bytes >= bytesMax || events >= eventsMax) break;
  }
  out.end();
  await once(file, "close");
  return events;
}

/** Adds the metadata and the status that an API server and a kubelet add, in the API server's order. */
function asLarge(resource: CachedResource, object: Whole): object {
  const sample = SAMPLES.get(resource);
  const { name, namespace, uid, resourceVersion, ...rest } = { ...sample?.metadata, ...object.metadata } as Readonly<
    Record<string, unknown>
  >;
  const { generation, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, labels, ...more } = rest;
  return {
    ...object,
    metadata: {
      ...{ name, namespace, uid, resourceVersion, generation, creationTimestamp },
      ...{ deletionTimestamp, deletionGracePeriodSeconds, labels, ...more },
    },
    status: { ...sample?.status, ...object.status },
  };
}
