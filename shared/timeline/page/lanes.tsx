import type { JSX, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Shown } from "./view.ts";
import { AXIS_HEIGHT, draw, heightOf } from "./draw.ts";
import type { Glyph } from "./glyph.ts";
import { LaneLabel } from "./lane-label.tsx";
import { firstFrom } from "./model.ts";
import type { Lane } from "./model.ts";
import { usePointer } from "./pointer.ts";
import { paletteOf } from "./palette.ts";
import type { Palette } from "./palette.ts";
import { clamp, spanOf, toggled, wholeSpan, zoomed, ZOOM } from "./view.ts";

const PAN = 0.1;

interface LanesProps extends Shown {
  readonly lanes: readonly Lane[];
}

/** The tree of objects to the left of the drawing. Only what is in sight is in the document. */
export function Lanes(props: LanesProps): JSX.Element {
  const { model, view, change, lanes } = props;
  const tops = useMemo(() => topsOf(lanes), [lanes]);
  const total = (tops.at(-1) ?? AXIS_HEIGHT) + (lanes.length > 0 ? heightOf(lanes[lanes.length - 1] as Lane) : 0); // of the last
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const glyphs = useRef<readonly Glyph[]>([]);
  const size = useSize(canvas);
  const palette = usePalette(canvas);
  const [scroll, setScroll] = useState(0);
  const rows = lanes
    .map((lane, index) => ({ lane, index, top: (tops[index] ?? 0) - scroll }))
    .slice(firstIn(tops, scroll - 100), firstIn(tops, scroll + size.height) + 1);
  const selected = lanes.findIndex(({ index }) => index === view.lane);

  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || palette === undefined || canvas.current === null) return;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
    if (canvas.current.width !== width || canvas.current.height !== height) [canvas.current.width, canvas.current.height] = [width, height];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const finding = view.finding === undefined ? undefined : model.input.findings[view.finding];
    glyphs.current = draw(context, { model, view, rows, width: size.width, height: size.height, palette, finding });
  });
  // A selected lane comes into sight.
  useEffect(() => {
    const lane = lanes[selected];
    const element = frame.current;
    const top = tops[selected] ?? 0;
    if (lane === undefined || element === null) return;
    if (top < element.scrollTop + AXIS_HEIGHT) element.scrollTop = top - AXIS_HEIGHT;
    else if (top + heightOf(lane) > element.scrollTop + element.clientHeight)
      element.scrollTop = top + heightOf(lane) - element.clientHeight;
  }, [view.lane, lanes]);
  const pointer = usePointer(props, { canvas, frame, glyphs, rows, size });
  const select = (index: number): void => {
    const lane = lanes[clamp(index, 0, lanes.length - 1)];
    if (lane !== undefined) change({ lane: lane.index, mark: undefined });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keyAction(event.key, { ...props, selected, select });
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  const hint =
    "Keys: ↑ ↓ choose an object, ← → move in time, + − zoom, 0 shows the whole time, N P go to the next and previous mark, comma and full stop move the moment, Enter folds a workload.";
  return (
    <div class="lanes">
      <div class="frame" ref={frame} onScroll={({ currentTarget }) => setScroll(currentTarget.scrollTop)}>
        <div
          role="tree"
          tabIndex={0}
          aria-label="Objects"
          aria-describedby="keys"
          aria-activedescendant={rows.some(({ index }) => index === selected) ? `lane-${view.lane}` : undefined}
          style={{ height: `${total}px` }}
          onKeyDown={onKeyDown}
        >
          {rows.map(({ lane, index, top }) => (
            <LaneLabel
              key={lane.index}
              {...{ lane, view, model, change }}
              top={top + scroll}
              place={{ index, count: lanes.length }}
              isClosed={view.closed.has(lane.index)}
            />
          ))}
        </div>
      </div>
      <canvas ref={canvas} aria-hidden="true" {...pointer} />
      {lanes.length === 0 && <p class="empty">No object matches the filter.</p>}
      <p id="keys" class="keys muted">
        {hint} The wheel zooms, dragging moves.
      </p>
    </div>
  );
}

function topsOf(lanes: readonly Lane[]): readonly number[] {
  let top = AXIS_HEIGHT;
  return lanes.map((lane) => (top += heightOf(lane)) - heightOf(lane));
}

/** Index of the first lane below `y`. */
function firstIn(tops: readonly number[], y: number): number {
  const index = tops.findIndex((top) => top >= y);
  return index === -1 ? tops.length : index;
}

interface Keys extends LanesProps {
  readonly selected: number;
  readonly select: (index: number) => void;
}

function keyAction(key: string, { model, view, change, lanes, selected, select }: Keys): (() => void) | undefined {
  const { endMs } = model.input;
  const width = view.to - view.from;
  const pan = (by: number): void => change(spanOf(view.from + by * width, view.to + by * width, endMs));
  const lane = lanes[selected];
  const goTo = (index: number): void => {
    const mark = lane?.marks[index];
    if (mark === undefined) return;
    const isInSight = mark.at >= view.from && mark.at <= view.to;
    change({ mark: mark.id, at: mark.at, ...(!isInSight && spanOf(mark.at - width / 2, mark.at + width / 2, endMs)) });
  };
  const current = lane?.marks.findIndex(({ id }) => id === view.mark) ?? -1;
  const actions: Readonly<Record<string, () => void>> = {
    ArrowDown: () => select(selected + 1),
    ArrowUp: () => select(Math.max(0, selected - 1)),
    Home: () => select(0),
    End: () => select(lanes.length - 1),
    PageDown: () => select(selected + 10),
    PageUp: () => select(Math.max(0, selected - 10)),
    ArrowLeft: () => pan(-PAN),
    ArrowRight: () => pan(PAN),
    "+": () => change(zoomed(view, ZOOM, view.at, endMs)),
    "=": () => change(zoomed(view, ZOOM, view.at, endMs)),
    "-": () => change(zoomed(view, 1 / ZOOM, view.at, endMs)),
    "0": () => change(wholeSpan(endMs)),
    ",": () => change({ at: clamp(view.at - width / 100, 0, endMs) }),
    ".": () => change({ at: clamp(view.at + width / 100, 0, endMs) }),
    n: () => goTo(current === -1 ? firstFrom(lane?.marks ?? [], view.from) : current + 1),
    p: () => goTo(current === -1 ? firstFrom(lane?.marks ?? [], view.to) - 1 : current - 1),
    Enter: () => lane && change({ closed: toggled(view.closed, lane) }),
    " ": () => lane && change({ closed: toggled(view.closed, lane) }),
    Escape: () => change({ lane: undefined, mark: undefined, finding: undefined, only: false }),
  };
  return actions[key.length === 1 ? key.toLowerCase() : key];
}

function useSize(canvas: RefObject<HTMLCanvasElement | null>): { readonly width: number; readonly height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    if (canvas.current === null) return undefined;
    const observer = new ResizeObserver(
      ([entry]) => entry && setSize({ width: entry.contentRect.width, height: entry.contentRect.height }),
    );
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, []);
  return size;
}

function usePalette(canvas: RefObject<HTMLCanvasElement | null>): Palette | undefined {
  const [palette, setPalette] = useState<Palette>();
  useLayoutEffect(() => {
    const read = (): void => setPalette(canvas.current === null ? undefined : paletteOf(canvas.current));
    read();
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", read);
    return () => dark.removeEventListener("change", read);
  }, []);
  return palette;
}
