/** Draws the marks of a lane. */
import { leadOf, rankOf } from "./model.ts";
import type { LaneMark } from "./model.ts";
import type { Palette } from "./palette.ts";

const SIZE = 5.5;

/** The glyph that was drawn for marks that are close to each other. */
export interface Glyph {
  readonly x: number;
  readonly y: number;
  readonly marks: readonly LaneMark[];
  /** Text of a change, if there is space. */
  readonly text?: string;
}

/**
 * Shape of a mark: change diamond, rejection cross, Event circle, sync triangle, shadow verdict square. A group of marks shows its number
 * of marks.
 */
export function drawGlyph(
  context: CanvasRenderingContext2D,
  { x, y, marks }: Glyph,
  { palette, isSelected = false, onBar = false }: { readonly palette: Palette; readonly isSelected?: boolean; readonly onBar?: boolean },
): void {
  const first = leadOf(marks);
  if (first === undefined) return;
  // Normal Events are small, so that they do not hide a bar, and so are updates of a status, so that they do not hide other decisions.
  const isSmall = first.isRoutine === true || (onBar && rankOf(first) === 4);
  const size = isSmall ? 3 : SIZE;
  const colour = first.isWarning ? palette.warning : first.kind === "refusal" ? palette.warning : palette[first.kind];
  [context.fillStyle, context.strokeStyle, context.lineWidth] = [colour, palette.panel, 1.5];
  context.beginPath();
  if (first.kind === "change")
    polygon(context, [
      [x, y - SIZE - 1],
      [x + SIZE + 1, y],
      [x, y + SIZE + 1],
      [x - SIZE - 1, y],
    ]);
  else if (first.kind === "sync")
    polygon(context, [
      [x - size, y + size - 1],
      [x + size, y + size - 1],
      [x, y - size],
    ]);
  else if (first.kind === "shadow") context.rect(x - SIZE + 1, y - SIZE + 1, 2 * SIZE - 2, 2 * SIZE - 2);
  else context.arc(x, y, isSmall ? 2.5 : SIZE - 0.5, 0, 7);
  context.stroke();
  context.fill();
  if (first.kind === "refusal") {
    context.strokeStyle = palette.panel;
    context.beginPath();
    for (const side of [1, -1]) {
      context.moveTo(x - 2.5, y - 2.5 * side);
      context.lineTo(x + 2.5, y + 2.5 * side);
    }
    context.stroke();
  }
  if (isSelected) {
    context.strokeStyle = palette.accent;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, SIZE + 4, 0, 7);
    context.stroke();
  }
  const text = countText(marks);
  if (text === "" || isSmall) return;
  context.font = "bold 9px system-ui, sans-serif";
  context.fillStyle = palette.text;
  context.fillText(text, x + SIZE + 2, y - 3);
  context.font = "11px system-ui, sans-serif";
}

function countText(marks: readonly LaneMark[]): string {
  const count = marks.filter(({ isRoutine }) => isRoutine !== true).length;
  return count < 2 ? "" : count > 99 ? "99+" : String(count);
}

const DIGIT_PX = 6;

/** Returns the pixels that a group covers left and right of its time. */
export function extentOf({ x, marks }: Glyph): readonly [left: number, right: number] {
  return [x - SIZE - 2, x + SIZE + 3 + countText(marks).length * DIGIT_PX];
}

/** Groups that would cover each other become one, at its most important mark. */
export function apart(groups: readonly (readonly LaneMark[])[], x: (at: number) => number, y: number): readonly Glyph[] {
  const glyphs: Glyph[] = [];
  for (const marks of groups) {
    let glyph: Glyph = { x: x(leadOf(marks)?.at ?? 0), y, marks };
    for (let last = glyphs.at(-1); last !== undefined && extentOf(last)[1] > extentOf(glyph)[0]; last = glyphs.at(-1)) {
      glyphs.pop();
      const both = [...last.marks, ...glyph.marks];
      glyph = { x: x(leadOf(both)?.at ?? 0), y, marks: both };
    }
    glyphs.push(glyph);
  }
  return glyphs;
}

/** Draws a restart as a tick with a head. */
export function drawRestart(
  context: CanvasRenderingContext2D,
  palette: Palette,
  { x, top, height }: { readonly x: number; readonly top: number; readonly height: number },
): void {
  context.fillStyle = palette.warning;
  context.fillRect(x - 1, top + 1, 2, height - 3);
  context.beginPath();
  context.arc(x, top + 3, 3, 0, 7);
  context.fill();
}

function polygon(context: CanvasRenderingContext2D, points: readonly (readonly [number, number])[]): void {
  for (const [index, [x, y]] of points.entries())
    if (index === 0) context.moveTo(x, y);
    else context.lineTo(x, y);
  context.closePath();
}
