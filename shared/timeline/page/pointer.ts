import type { CanvasHTMLAttributes, RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { AXIS_HEIGHT, heightOf } from "./draw.ts";
import type { Glyph } from "./glyph.ts";
import { leadOf } from "./model.ts";
import type { Lane } from "./model.ts";
import { clamp, spanOf, zoomed } from "./view.ts";
import type { Shown } from "./view.ts";

/** Clicks within this distance of a glyph select it. */
const HIT_PX = 9;

export interface Drawn {
  readonly canvas: RefObject<HTMLCanvasElement | null>;
  readonly frame: RefObject<HTMLDivElement | null>;
  readonly glyphs: { readonly current: readonly Glyph[] };
  readonly rows: readonly { readonly lane: Lane; readonly top: number }[];
  readonly size: { readonly width: number };
}

interface Drag {
  readonly x: number;
  readonly y: number;
  readonly from: number;
  readonly scroll: number;
  readonly isAxis: boolean;
  isMoved: boolean;
}

/**
 * A click selects, dragging moves, a drag on the axis sets the moment. The wheel and two fingers zoom; the wheel sideways or with Shift
 * moves.
 */
export function usePointer(
  { model, view, change }: Shown,
  { canvas, frame, glyphs, rows, size }: Drawn,
): Pick<CanvasHTMLAttributes<HTMLCanvasElement>, "onPointerDown" | "onPointerMove" | "onPointerUp" | "onPointerCancel"> {
  const { endMs } = model.input;
  const drag = useRef<Drag>(undefined);
  /** Distance of each pointer from the left edge. */
  const fingers = useRef(new Map<number, number>());
  const latest = useRef(view);
  latest.current = view;
  const timeAt = (x: number): number => clamp(latest.current.from + (x / size.width) * (latest.current.to - latest.current.from), 0, endMs);
  useEffect(() => {
    const element = canvas.current;
    // Preact adds passive listeners, which cannot prevent the page from scrolling.
    const onWheel = (event: WheelEvent): void => {
      event.preventDefault();
      const { from, to } = latest.current;
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      const by = ((to - from) * sideways) / size.width;
      if (isSideways) change(spanOf(from + by, to + by, endMs));
      else change(zoomed(latest.current, Math.exp(clamp(event.deltaY, -200, 200) * 0.003), timeAt(event.offsetX), endMs));
    };
    element?.addEventListener("wheel", onWheel, { passive: false });
    return () => element?.removeEventListener("wheel", onWheel);
  });
  const choose = ({ offsetX: x, offsetY: y }: PointerEvent): void => {
    const near = glyphs.current.filter((each) => Math.abs(each.x - x) <= HIT_PX && Math.abs(each.y - y) <= HIT_PX);
    const [glyph] = near.toSorted((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x));
    const mark = glyph && leadOf(glyph.marks);
    const row = rows.find(({ lane, top }) => y >= top && y < top + heightOf(lane));
    if (mark !== undefined) change({ lane: mark.lane, mark: mark.id, at: mark.at });
    else change({ at: timeAt(x), mark: undefined, ...(row && { lane: row.lane.index }) });
  };
  /** Zooms around the finger that does not move: the time at its position stays in place. */
  const pinch = (other: number, before: number, x: number): void => {
    const factor = Math.max(1, Math.abs(before - other)) / Math.max(1, Math.abs(x - other));
    change(zoomed(latest.current, factor, timeAt(other), endMs));
  };
  return {
    onPointerDown: (event) => {
      canvas.current?.setPointerCapture(event.pointerId);
      fingers.current.set(event.pointerId, event.offsetX);
      if (fingers.current.size > 1) return void (drag.current = undefined);
      const { offsetX: x, offsetY: y } = event;
      const isAxis = y < AXIS_HEIGHT;
      drag.current = { x, y, from: view.from, scroll: frame.current?.scrollTop ?? 0, isAxis, isMoved: false };
      if (isAxis) change({ at: timeAt(x) });
    },
    onPointerMove: ({ pointerId, offsetX: x, offsetY: y }) => {
      const [before = 0, other] = [fingers.current.get(pointerId), otherThan(pointerId, fingers.current)];
      if (fingers.current.has(pointerId)) fingers.current.set(pointerId, x);
      if (other !== undefined) return pinch(other, before, x);
      const { current } = drag;
      if (current === undefined) return;
      current.isMoved ||= Math.abs(x - current.x) + Math.abs(y - current.y) > 4;
      if (current.isAxis) return change({ at: timeAt(x) });
      if (!current.isMoved) return;
      const span = view.to - view.from;
      const from = current.from - ((x - current.x) / size.width) * span;
      change(spanOf(from, from + span, endMs));
      if (frame.current !== null) frame.current.scrollTop = current.scroll - (y - current.y);
    },
    onPointerUp: (event) => {
      const { current } = drag;
      drag.current = undefined;
      fingers.current.delete(event.pointerId);
      if (current !== undefined && !current.isMoved && !current.isAxis) choose(event);
    },
    onPointerCancel: ({ pointerId }) => {
      drag.current = undefined;
      fingers.current.delete(pointerId);
    },
  };
}

function otherThan(pointer: number, fingers: ReadonlyMap<number, number>): number | undefined {
  return [...fingers].find(([id]) => id !== pointer)?.[1];
}
