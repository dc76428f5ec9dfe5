import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { PodState } from "../input.ts";
import { drawGlyph, drawRestart } from "./glyph.ts";
import type { LaneMark, Model } from "./model.ts";
import { paletteOf } from "./palette.ts";
import type { Palette } from "./palette.ts";

const STATES: readonly PodState[] = ["pending", "starting", "pulling", "waiting", "running", "ready", "terminating", "failed"];
const MARKS: readonly (readonly [LaneMark["kind"], string, boolean?, true?])[] = [
  ["change", "change by a user"],
  ["sync", "decision of a controller"],
  ["sync", "that only writes a status", false, true],
  ["event", "Event"],
  ["event", "warning", true],
  ["refusal", "refused request"],
  ["shadow", "upstream's write, same as deltaloop's"],
  ["shadow", "upstream's write, different from deltaloop's", true],
];
const [WIDTH, HEIGHT] = [22, 14];

export function Legend({ model }: { readonly model: Model }): JSX.Element {
  const isBesideUpstream = model.input.marks.some(({ kind }) => kind === "shadow");
  return (
    <ul class="legend" aria-label="Legend">
      {STATES.map((state) => (
        <li key={state}>
          <Swatch
            paint={(context, palette) => {
              context.fillStyle = palette.fills[state];
              context.fillRect(0, 1, WIDTH, HEIGHT - 2);
              context.strokeStyle = palette.muted;
              context.strokeRect(0.5, 1.5, WIDTH - 1, HEIGHT - 3);
            }}
          />
          {state === "running" ? "running, not ready" : state}
        </li>
      ))}
      {MARKS.filter(([kind]) => kind !== "shadow" || isBesideUpstream).map(([kind, words, isWarning = false, isRoutine]) => (
        <li key={words}>
          <Swatch
            paint={(context, palette) => {
              const mark = { id: "", lane: 0, at: 0, title: "", kind, isWarning, ...(isRoutine && { isRoutine }) };
              drawGlyph(context, { x: WIDTH / 2, y: HEIGHT / 2, marks: [mark] }, { palette });
            }}
          />
          {words}
        </li>
      ))}
      {model.input.objects.some(({ restarts = [] }) => restarts.length > 0) && (
        <li>
          <Swatch paint={(context, palette) => drawRestart(context, palette, { x: WIDTH / 2, top: 0, height: HEIGHT })} />
          restart of a container
        </li>
      )}
      {model.input.gaps.length > 0 && (
        <li>
          <Swatch
            paint={(context, palette) => {
              context.fillStyle = palette.gap;
              context.fillRect(0, 0, WIDTH, HEIGHT);
            }}
          />
          gap in the watch
        </li>
      )}
      <li>
        <span class="dashed" aria-hidden="true" /> desired pods; line: ready; area: available
      </li>
    </ul>
  );
}

function Swatch({ paint }: { readonly paint: (context: CanvasRenderingContext2D, palette: Palette) => void }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [isDark, setDark] = useState(false);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const read = (): void => setDark(dark.matches);
    read();
    dark.addEventListener("change", read);
    return () => dark.removeEventListener("change", read);
  }, []);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || canvas.current === null) return;
    context.clearRect(0, 0, WIDTH, HEIGHT);
    paint(context, paletteOf(canvas.current));
  }, [isDark]);
  return <canvas ref={canvas} width={WIDTH} height={HEIGHT} aria-hidden="true" />;
}
