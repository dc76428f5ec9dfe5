import type { TimelineInput, TimelineUpdate } from "../input.ts";

/** Merges an update into the input. */
export function merged(input: TimelineInput, { objects: updates, marks, gaps, ...rest }: TimelineUpdate): TimelineInput {
  const objects = [...input.objects];
  for (const [index, object] of updates) {
    const { changes = [], sizes = [] } = objects[index] ?? {};
    objects[index] = {
      ...object,
      changes: [...changes, ...object.changes],
      ...(object.sizes && { sizes: [...sizes, ...object.sizes] }),
    };
  }
  return { ...input, ...rest, objects, marks: [...input.marks, ...marks], gaps: [...input.gaps, ...gaps] };
}
