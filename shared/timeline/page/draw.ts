/** Draws the visible lanes on a canvas. The work depends on the pixels, not on the number of records. */
import type { TimelineFinding, TimelineObject } from "../input.ts";
import { stateWords, ticksOf } from "./format.ts";
import { apart, drawGlyph, drawRestart, extentOf } from "./glyph.ts";
import type { Glyph } from "./glyph.ts";
import { changeTitle, clustersOf, lastAt, leadOf } from "./model.ts";
import type { Lane, Model } from "./model.ts";
import type { Palette } from "./palette.ts";
import type { View } from "./view.ts";

export const AXIS_HEIGHT = 30;
const [OWNER_HEIGHT, POD_HEIGHT] = [54, 24];
const [MARKS_HEIGHT, CLUSTER_PX] = [18, 22];

export interface Scene {
  readonly model: Model;
  readonly view: View;
  /** The visible lanes, with the upper edge of each. */
  readonly rows: readonly { readonly lane: Lane; readonly top: number }[];
  readonly width: number;
  readonly height: number;
  readonly palette: Palette;
  readonly finding: TimelineFinding | undefined;
}

export function heightOf({ object }: Lane): number {
  return isBar(object) ? POD_HEIGHT : OWNER_HEIGHT;
}

/** Whether states are drawn instead of sizes. */
function isBar({ states }: TimelineObject): boolean {
  return states !== undefined;
}

/** Draws the scene. Returns the glyphs, which handle clicks. */
export function draw(context: CanvasRenderingContext2D, scene: Scene): readonly Glyph[] {
  const { model, view, rows, width, height, palette, finding } = scene;
  const { gaps, endMs, cluster } = model.input;
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  const x = (at: number): number => ((at - view.from) / (view.to - view.from)) * width;
  // Nothing is known after the end of a recording; for a running cluster, the last state is the present state.
  const frame = { view, x, palette, width, knownUntil: cluster === undefined ? endMs : Infinity };
  drawGrid(context, scene, x);
  const affected = new Set(finding?.objects.map((index) => shownLane(model.lanes[index], rows)));
  const glyphs: Glyph[] = [];
  context.save();
  context.beginPath();
  context.rect(0, AXIS_HEIGHT, width, height - AXIS_HEIGHT);
  context.clip();
  for (const { lane, top } of rows) {
    if (view.lane === lane.index) {
      context.fillStyle = palette.select;
      context.fillRect(0, top, width, heightOf(lane));
    }
    if (finding !== undefined && affected.has(lane)) {
      context.globalAlpha = 0.2;
      context.fillStyle = palette.warning;
      context.fillRect(x(finding.from), top, Math.max(2, x(finding.until ?? endMs) - x(finding.from)), heightOf(lane) - 1);
      context.globalAlpha = 1;
    }
    context.fillStyle = palette.line;
    context.fillRect(0, top + heightOf(lane) - 1, width, 1);
    const own = glyphsOf(lane, top, frame);
    if (isBar(lane.object)) drawBar(context, lane, { top, glyphs: own }, frame);
    else drawSizes(context, lane, top, frame);
    drawMarks(context, lane, own, frame);
    glyphs.push(...own);
  }
  for (const { from, until } of gaps) {
    context.fillStyle = palette.gap;
    context.globalAlpha = 0.5;
    context.fillRect(x(from), AXIS_HEIGHT, Math.max(1, x(until) - x(from)), height);
    context.globalAlpha = 1;
  }
  context.restore();
  drawMoment(context, x(view.at), scene);
  return glyphs;
}

/** Returns the lane, or the collapsed lane that contains it. */
function shownLane(lane: Lane | undefined, rows: Scene["rows"]): Lane | undefined {
  let each = lane;
  while (each !== undefined && !rows.some((row) => row.lane === each)) each = each.parent;
  return each;
}

interface Frame {
  readonly view: View;
  readonly x: (at: number) => number;
  readonly palette: Palette;
  readonly width: number;
  readonly knownUntil: number;
}

function drawGrid(context: CanvasRenderingContext2D, { model, view, width, height, palette }: Scene, x: Frame["x"]): void {
  const { startMs } = model.input;
  // Ticks are at round clock times.
  const { step, ticks } = ticksOf(view.from + startMs, view.to + startMs, width);
  for (const tick of ticks) {
    const at = x(tick - startMs);
    context.fillStyle = palette.line;
    context.fillRect(Math.round(at), AXIS_HEIGHT - 8, 1, height);
    context.fillStyle = palette.muted;
    const text = new Date(tick).toISOString().slice(11, step < 1_000 ? 23 : 19);
    const end = at + text.length * 6.5;
    const moment = x(view.at);
    // Omits a text that would be cut off or be behind the selected moment.
    if (end < width && (moment < at || moment > end)) context.fillText(text, at + 4, AXIS_HEIGHT / 2);
  }
  context.fillStyle = palette.line;
  context.fillRect(0, AXIS_HEIGHT - 1, width, 1);
}

function drawMoment(context: CanvasRenderingContext2D, at: number, { height, palette, width }: Scene): void {
  if (at < -6 || at > width + 6) return;
  context.fillStyle = palette.accent;
  context.fillRect(Math.round(at) - 1, 12, 2, height);
  context.beginPath();
  context.moveTo(at - 6, 4);
  context.lineTo(at + 6, 4);
  context.lineTo(at, 14);
  context.fill();
}

interface Bar {
  readonly top: number;
  /** Glyphs that labels must not cover. */
  readonly glyphs: readonly Glyph[];
}

function drawBar(
  context: CanvasRenderingContext2D,
  { object }: Lane,
  { top, glyphs }: Bar,
  { view, x, palette, width, knownUntil }: Frame,
): void {
  const covered = [...glyphs.map(extentOf), ...(object.restarts ?? []).map((at) => [x(at) - 4, x(at) + 4] as const)].toSorted(
    ([a], [b]) => a - b,
  );
  const { states = [], until = knownUntil, restarts = [], from } = object;
  const [barTop, barHeight] = [top + 3, POD_HEIGHT - 7];
  let begun = -Infinity;
  for (let index = Math.max(0, lastAt(states, view.from)); index < states.length; index++) {
    const step = states[index];
    if (step === undefined || step[0] > view.to) break;
    const [at, state, reason] = step;
    const end = Math.min(states[index + 1]?.[0] ?? until, until, view.to + (view.to - view.from));
    const left = Math.max(-2, x(Math.max(at, from)));
    const right = Math.min(width + 2, x(end));
    // Only the first of several states within one pixel is drawn.
    if (right - begun < 1 && index < states.length - 1) continue;
    begun = right;
    context.fillStyle = palette.fills[state];
    context.fillRect(left, barTop, Math.max(1.5, right - left), barHeight);
    context.strokeStyle = state === "pending" ? palette.muted : palette.panel;
    context.lineWidth = 1;
    if (right - left > 4) context.strokeRect(left + 0.5, barTop + 0.5, right - left - 1, barHeight - 1);
    const place = { left: left + 5, right: right - 3, y: barTop + barHeight / 2 + 0.5, ink: palette.inks[state] };
    label(context, reason ?? stateWords(state), { ...place, back: palette.backs[state], covered });
  }
  for (const restart of restarts) {
    if (restart < view.from || restart > view.to) continue;
    drawRestart(context, palette, { x: x(restart), top, height: POD_HEIGHT });
  }
}

interface LabelPlace {
  readonly left: number;
  readonly right: number;
  readonly y: number;
  readonly ink: string;
  /** Colour behind the text, so that a pattern does not make it hard to read. */
  readonly back?: string;
  /** Colour of an outline of the text, which may be on lines. */
  readonly halo?: string;
  /** Ranges that the text must not touch, from left to right. */
  readonly covered?: readonly (readonly [left: number, right: number])[];
}

/** Draws the text at the first position that is wide enough. */
function label(context: CanvasRenderingContext2D, text: string, { left, right, y, ink, back, halo, covered = [] }: LabelPlace): void {
  let begin = Math.max(4, left);
  // The estimate avoids measuring most texts.
  const width = right - begin < text.length * 4.5 ? Infinity : context.measureText(text).width;
  for (const [from, to] of covered) if (to > begin && from < begin + width + 3) begin = to + 3;
  if (width > right - begin) return;
  if (back !== undefined) {
    context.fillStyle = back;
    context.fillRect(begin - 3, y - 8, width + 6, 15);
  }
  if (halo !== undefined) {
    [context.strokeStyle, context.lineWidth, context.lineJoin] = [halo, 3, "round"];
    context.strokeText(text, begin, y);
  }
  context.fillStyle = ink;
  context.fillText(text, begin, y);
}

/** Draws available replicas as an area, ready replicas as a line, and desired replicas as a dashed line. */
function drawSizes(
  context: CanvasRenderingContext2D,
  { object, sizeMax }: Lane,
  top: number,
  { view, x, palette, width, knownUntil }: Frame,
): void {
  const { sizes = [], until = knownUntil } = object;
  const [base, full] = [top + OWNER_HEIGHT - 5, OWNER_HEIGHT - MARKS_HEIGHT - 9];
  const y = (size: number): number => base - (size / sizeMax) * full;
  const first = Math.max(0, lastAt(sizes, view.from));
  const steps = sizes.slice(first, Math.max(first + 1, lastAt(sizes, view.to) + 1));
  if (steps.length === 0) return;
  const end = Math.min(width + 2, x(Math.min(until, view.to * 2)));
  const path = (field: 1 | 2 | 3): void => {
    let last = 0;
    for (const [index, step] of steps.entries()) {
      const at = Math.max(-2, x(step[0]));
      if (index === 0) context.moveTo(at, y(step[field]));
      else {
        context.lineTo(at, y(last));
        context.lineTo(at, y(step[field]));
      }
      last = step[field];
    }
    context.lineTo(end, y(last));
  };
  const begin = Math.max(-2, x(steps[0]?.[0] ?? 0));
  context.beginPath();
  path(3);
  context.lineTo(end, base);
  context.lineTo(begin, base);
  context.globalAlpha = 0.35;
  context.fillStyle = palette.available;
  context.fill();
  context.globalAlpha = 1;
  for (const [field, colour, dash] of [
    [2, palette.available, []],
    [1, palette.desired, [4, 3]],
  ] as const) {
    context.beginPath();
    path(field);
    context.setLineDash([...dash]);
    context.strokeStyle = colour;
    context.lineWidth = 1.75;
    context.stroke();
  }
  context.setLineDash([]);
  for (const [index, [at, desired]] of steps.entries()) {
    if (index > 0 && steps[index - 1]?.[1] === desired) continue;
    const right = steps.slice(index + 1).find(([, other]) => other !== desired)?.[0] ?? until;
    const place = { left: x(at) + 4, right: Math.min(width, x(right)), y: y(desired) + (desired === 0 ? -7 : 7), ink: palette.text };
    label(context, `${desired}`, { ...place, halo: palette.panel });
  }
}

function glyphsOf({ marks, object }: Lane, top: number, { view, x, width }: Frame): readonly Glyph[] {
  const y = top + (isBar(object) ? POD_HEIGHT / 2 : MARKS_HEIGHT / 2 + 1);
  const glyphs = apart(clustersOf(marks, view, (CLUSTER_PX * (view.to - view.from)) / width), x, y);
  return isBar(object) ? glyphs : withTexts(glyphs, width);
}

const LETTER_PX = 6;

/**
 * Adds texts to changes: the difference, or at least the new value. Updates of a status behind such a text belong to the group of the
 * change.
 */
function withTexts(glyphs: readonly Glyph[], width: number): readonly Glyph[] {
  const all: Glyph[] = [];
  for (let index = 0; index < glyphs.length; index++) {
    const glyph = glyphs[index] as Glyph; // the index is below the length
    const change = leadOf(glyph.marks)?.change;
    const to = change?.what === "changed" ? change.differences[0]?.to?.split("/").at(-1) : undefined;
    const texts = change === undefined ? [] : [changeTitle(change), ...(to === undefined ? [] : [`→ ${to}`])];
    const isRoutine = ({ marks }: Glyph): boolean => marks.every((mark) => mark.isRoutine);
    const next = glyphs.findIndex((each, n) => n > index && !isRoutine(each));
    const [, left] = extentOf(glyph);
    const right = next === -1 ? width : extentOf(glyphs[next] as Glyph)[0]; // `next` is a valid index
    const text = texts.find((each) => left + each.length * LETTER_PX < right);
    if (text === undefined) {
      all.push(glyph);
      continue;
    }
    const marks = [...glyph.marks];
    for (
      let after = glyphs[index + 1];
      after !== undefined && isRoutine(after) && after.x < left + text.length * LETTER_PX;
      after = glyphs[index + 1]
    ) {
      marks.push(...after.marks);
      index++;
    }
    all.push({ ...glyph, marks, text });
  }
  return all;
}

function drawMarks(context: CanvasRenderingContext2D, { object }: Lane, glyphs: readonly Glyph[], { view, palette }: Frame): void {
  for (const glyph of glyphs) {
    const isSelected = glyph.marks.some(({ id }) => id === view.mark);
    drawGlyph(context, glyph, { palette, isSelected, onBar: isBar(object) });
    if (glyph.text === undefined) continue;
    context.fillStyle = palette.change;
    context.fillText(glyph.text, extentOf(glyph)[1] + 2, glyph.y);
  }
}
