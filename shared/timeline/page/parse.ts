/** Unpacks and parses the data. */
import type { Mark, TimelineInput, TimelineObject } from "../input.ts";

/** A part of the input; the first part has everything except objects and marks. */
export interface Part {
  readonly head?: TimelineInput;
  readonly objects?: readonly TimelineObject[];
  readonly marks?: readonly Mark[];
}

const PART = 2_000;

export async function parsed(base64: string): Promise<TimelineInput> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index++) bytes[index] = text.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as TimelineInput; // the data was written by the same version
}

/** Splits the input into parts so small that the page processes each in a short task. */
export function* partsOf(input: TimelineInput): Generator<Part> {
  yield { head: { ...input, objects: [], marks: [] } };
  for (let at = 0; at < input.objects.length; at += PART) yield { objects: input.objects.slice(at, at + PART) };
  for (let at = 0; at < input.marks.length; at += PART) yield { marks: input.marks.slice(at, at + PART) };
}
