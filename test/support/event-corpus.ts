/**
 * Answers of client-go's own EventCorrelator (recorded by test/envtest/control-plane/events): random histories of a few
 * objects, and more objects than it remembers.
 */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

export interface RecordedCall {
  readonly atMs: number;
  readonly object: string;
  readonly field: number;
  readonly type: string;
  readonly reason: string;
  readonly message: string;
  /** Undefined: suppressed. */
  readonly answer: { readonly count: number; readonly isCombined: boolean; readonly nanos: string } | undefined;
}

export interface EventCorpus {
  /** Name undefined: the Event's name is a UUID. */
  readonly names: readonly { readonly object: string; readonly nanos: string; readonly name: string | undefined }[];
  readonly lives: readonly (readonly RecordedCall[])[];
  readonly crowd: readonly RecordedCall[];
}

type Line = readonly (readonly [number, string, number, string, string, string, number, number, string])[];

export function eventCorpus(): EventCorpus {
  const text = gunzipSync(readFileSync(new URL("../captures/event-correlator.jsonl.gz", import.meta.url))).toString();
  const [names = "", ...lines] = text.trimEnd().split("\n");
  const lives = lines.map((line) => (JSON.parse(line) as Line).map(callOf)); // the header of the recorder describes the format
  return {
    names: (JSON.parse(names) as (readonly [string, string, string])[]).map(([object, nanos, name]) => ({
      object,
      nanos,
      name: name || undefined,
    })),
    lives: lives.slice(0, -1),
    crowd: lives.at(-1) ?? [],
  };
}

function callOf([atMs, object, field, type, reason, message, count, combined, nanos]: Line[number]): RecordedCall {
  return { atMs, object, field, type, reason, message, answer: count === 0 ? undefined : { count, isCombined: combined === 1, nanos } };
}
