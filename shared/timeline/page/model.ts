/** The input with the links and orders needed for drawing. */
import type { Change, Difference, Mark, PodState, SizeStep, TimelineInput, TimelineObject } from "../input.ts";

export interface Lane {
  readonly index: number;
  readonly object: TimelineObject;
  readonly depth: number;
  readonly parent?: Lane;
  readonly children: Lane[];
  /** The marks, sorted by time. */
  readonly marks: readonly LaneMark[];
  /** The largest size in the lane's tree, which scales its curves. */
  sizeMax: number;
}

export interface LaneMark {
  /** `12.m3`: the fourth mark of lane 12; `12.c3`: its fourth change. */
  readonly id: string;
  readonly lane: number;
  readonly at: number;
  readonly kind: "change" | Mark["kind"];
  readonly title: string;
  readonly isWarning: boolean;
  /** A sync that only writes a status. */
  readonly isRoutine?: true;
  /** Repeats of the same decision, until its result was recorded. */
  readonly repeats?: number;
  readonly mark?: Mark;
  readonly change?: Change;
}

export interface Model {
  readonly input: TimelineInput;
  /** The lanes by object index. */
  readonly lanes: readonly Lane[];
  /** The lanes in drawing order: each lane before those of the objects that it owns. */
  readonly order: readonly Lane[];
  readonly namespaces: readonly string[];
}

export function modelOf(input: TimelineInput): Model {
  const { objects } = input;
  const marks = Map.groupBy(input.marks, ({ object }) => object);
  const owned = Map.groupBy(objects.keys(), (index) => ownerOf(objects, index));
  const lanes: Lane[] = [];
  const order: Lane[] = [];
  const add = (index: number, parent: Lane | undefined): void => {
    const object = objects[index] as TimelineObject; // the object has exactly its keys
    const sizeMax = (object.sizes ?? []).reduce((most, [, desired, ready]) => Math.max(most, desired, ready), 1);
    const lane: Lane = {
      ...{ index, object, depth: parent === undefined ? 0 : parent.depth + 1, children: [], sizeMax },
      ...(parent && { parent }),
      marks: marksOf(index, object.changes, marks.get(index) ?? []),
    };
    lanes[index] = lane;
    order.push(lane);
    parent?.children.push(lane);
    for (let each = parent; each !== undefined; each = each.parent) each.sizeMax = Math.max(each.sizeMax, sizeMax);
    const revisionOf = (child: number): number => objects[child]?.revision ?? 0;
    for (const child of (owned.get(index) ?? []).toSorted((a, b) => revisionOf(b) - revisionOf(a))) add(child, lane);
  };
  for (const root of owned.get(undefined) ?? []) add(root, undefined);
  for (const lane of order) if (lane.parent !== undefined) lane.sizeMax = lane.parent.sizeMax;
  return {
    input,
    lanes,
    order,
    namespaces: [...new Set(objects.map(({ namespace }) => namespace))].filter((each) => each !== "").toSorted(),
  };
}

/** Owner references that form a cycle are ignored. */
function ownerOf(objects: readonly TimelineObject[], index: number): number | undefined {
  const seen = new Set([index]);
  for (let owner = objects[index]?.owner; owner !== undefined; owner = objects[owner]?.owner) {
    if (seen.has(owner)) return undefined;
    seen.add(owner);
  }
  return objects[index]?.owner;
}

/** Returns the marks. The ids of existing marks stay unchanged when marks are added. */
function marksOf(lane: number, changes: readonly Change[], marks: readonly Mark[]): readonly LaneMark[] {
  const all = [
    ...changes.flatMap((change, n): readonly LaneMark[] =>
      change.isRequest
        ? [{ id: `${lane}.c${n}`, lane, at: change.at, kind: "change", title: changeTitle(change), isWarning: false, change }]
        : [],
    ),
    ...marks.map((mark, n): LaneMark => {
      const { at, kind, title, isWarning = false } = mark;
      const isRoutine = kind === "sync" && !isWarning && title.startsWith("status: ");
      return { id: `${lane}.m${n}`, lane, at, kind, title, isWarning, mark, ...(isRoutine && { isRoutine }) };
    }),
  ];
  return withoutRepeats(all.sort((a, b) => a.at - b.at));
}

/** Syncs repeat a decision until they see its result. */
function withoutRepeats(marks: readonly LaneMark[]): readonly LaneMark[] {
  const kept: LaneMark[] = [];
  let last = -1;
  for (const mark of marks) {
    const before = kept[last];
    if (mark.kind === "sync" && before?.title === mark.title && before.isWarning === mark.isWarning)
      kept[last] = { ...before, repeats: (before.repeats ?? 0) + 1 };
    else {
      kept.push(mark);
      if (mark.kind === "sync") last = kept.length - 1;
    }
  }
  return kept;
}

const VALUE_MAX = 32;

/** `web.image: app:v1 → app:v2 and 1 more`. */
export function changeTitle({ what, differences }: Change): string {
  const [first] = differences;
  if (what !== "changed") return what;
  if (first === undefined) return "changed in fields that are not recorded";
  return `${shortDifference(first)}${differences.length > 1 ? ` and ${differences.length - 1} more` : ""}`;
}

/** Returns a short text, without the registries of images and the ends of long values. */
function shortDifference({ field, from, to }: Difference): string {
  const [was, is] = [from, to].map((value) => value?.split("/").at(-1));
  const [before, after] = was === is ? [from, to] : [was, is];
  return differenceText({
    field,
    ...(before !== undefined && { from: clipped(before) }),
    ...(after !== undefined && { to: clipped(after) }),
  });
}

function clipped(value: string): string {
  return value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX - 1)}…` : value;
}

export function differenceText({ field, from, to }: Difference): string {
  if (from === undefined && to === undefined) return `${field}: value changed (redacted)`;
  if (from === undefined) return `${field}: ${to}`;
  return `${field}: ${from} → ${to ?? "removed"}`;
}

/** Index of the last item at or before the time; -1 before the first. */
export function lastAt(steps: readonly (readonly [number, ...unknown[]])[], at: number): number {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((steps[middle]?.[0] ?? Infinity) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Index of the first mark at or after the time. */
export function firstFrom(marks: readonly { readonly at: number }[], at: number): number {
  let [low, high] = [0, marks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((marks[middle]?.at ?? Infinity) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the most important of several marks, which is drawn at its own time. */
export function leadOf(marks: readonly LaneMark[]): LaneMark | undefined {
  return marks.toSorted((a, b) => rankOf(a) - rankOf(b))[0];
}

/** Returns the rank of a mark; 0 is the most important. */
export function rankOf({ kind, isWarning, isRoutine }: LaneMark): number {
  if (isRoutine) return 5;
  return kind === "event" && isWarning ? 2 : { change: 0, refusal: 1, sync: 3, event: 4, shadow: isWarning ? 1 : 3 }[kind];
}

/** The marks of a time span, in groups that each last less than `apartMs`. */
export function clustersOf<M extends { readonly at: number }>(
  marks: readonly M[],
  { from, to }: { readonly from: number; readonly to: number },
  apartMs: number,
): readonly (readonly M[])[] {
  const clusters: (readonly M[])[] = [];
  for (let index = firstFrom(marks, from); index < marks.length;) {
    const first = marks[index];
    if (first === undefined || first.at > to) break;
    const next = Math.max(index + 1, firstFrom(marks, first.at + apartMs));
    clusters.push(marks.slice(index, next));
    index = next;
  }
  return clusters;
}

export type PodMoment = { readonly state: PodState; readonly reason?: string; readonly since: number };

/** Returns undefined while the object does not exist, and for an object without states. */
export function podAt({ from, until = Infinity, states }: TimelineObject, at: number): PodMoment | undefined {
  if (at < from || at >= until || states === undefined) return undefined;
  const [since, state, reason] = states[Math.max(0, lastAt(states, at))] ?? [from, "pending"];
  return { state, since, ...(reason !== undefined && { reason }) };
}

export function sizeAt({ from, until = Infinity, sizes = [] }: TimelineObject, at: number): SizeStep | undefined {
  return at < from || at >= until ? undefined : sizes[Math.max(0, lastAt(sizes, at))];
}
