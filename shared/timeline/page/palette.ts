/** Colours and patterns from the page's style, for the current theme. */
import type { PodState } from "../input.ts";

const NAMES = [
  "text",
  "muted",
  "line",
  "panel",
  "accent",
  "desired",
  "available",
  "warning",
  "select",
  "change",
  "sync",
  "event",
  "shadow",
] as const;
const STATES: readonly PodState[] = ["pending", "starting", "pulling", "waiting", "running", "ready", "terminating", "failed", "succeeded"];

type Colour = (typeof NAMES)[number];

export interface Palette extends Readonly<Record<Colour, string>> {
  readonly fills: Readonly<Record<PodState, CanvasPattern | string>>;
  /** The plain colour of each pattern. */
  readonly backs: Readonly<Record<PodState, string>>;
  /** Text on a bar. */
  readonly inks: Readonly<Record<PodState, string>>;
  readonly gap: CanvasPattern | string;
}

type Pattern = "plain" | "dots" | "rising" | "falling" | "cross" | "outline";
/** Patterns, by which states can be distinguished without colour. */
const PATTERNS: Readonly<Record<PodState, Pattern>> = {
  pending: "outline",
  starting: "dots",
  pulling: "rising",
  waiting: "cross",
  running: "rising",
  ready: "plain",
  terminating: "falling",
  failed: "plain",
  succeeded: "dots",
};

export function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const value = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const perState = <T>(of: (state: PodState) => T): Readonly<Record<PodState, T>> =>
    Object.fromEntries(STATES.map((state) => [state, of(state)])) as Record<PodState, T>; // STATES lists every state
  return {
    ...(Object.fromEntries(NAMES.map((name) => [name, value(name)])) as Record<Colour, string>), // NAMES lists every name
    fills: perState((state) => pattern(value(state), value(`${state}-2`) || value(state), PATTERNS[state])),
    backs: perState(value),
    inks: perState((state) => value(`${state}-ink`)),
    gap: pattern("transparent", value("muted"), "falling"),
  };
}

const SIZE = 8;

function pattern(back: string, front: string, kind: Pattern): CanvasPattern | string {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (kind === "plain" || kind === "outline" || context === null) return back;
  [canvas.width, canvas.height] = [SIZE, SIZE];
  context.fillStyle = back;
  context.fillRect(0, 0, SIZE, SIZE);
  [context.strokeStyle, context.fillStyle, context.lineWidth] = [front, front, 1.5];
  const line = (x1: number, y1: number, x2: number, y2: number): void => {
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
  };
  if (kind === "dots")
    for (const [x, y] of [
      [1, 1],
      [5, 5],
    ] as const)
      context.fillRect(x, y, 2, 2);
  if (kind === "rising" || kind === "cross") for (const x of [-SIZE, 0, SIZE]) line(x, SIZE, x + SIZE, 0);
  if (kind === "falling" || kind === "cross") for (const x of [-SIZE, 0, SIZE]) line(x, 0, x + SIZE, SIZE);
  return context.createPattern(canvas, "repeat") ?? back;
}
