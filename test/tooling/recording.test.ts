/**
 * The animated picture of the demo (`npm run recording`). Catches: a line that is lost or not escaped, a line that moves too early, and an
 * invalid picture.
 */
import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { animatedTerminal } from "../../infra/recording/animated-terminal.ts";

const LINES = [
  { atMs: 0, text: "$ npm run demo" },
  { atMs: 1_000, text: "> roll <web> & wait ●●○×" },
  { atMs: 3_000, text: "x".repeat(200) },
];
const svg = animatedTerminal(LINES);

it("draws each line once, escaped, coloured and shortened", () => {
  expect(svg.match(/<text /g)).toHaveLength(LINES.length);
  expect(svg).toContain('&gt; roll &lt;web&gt; &amp; wait <tspan class="g">●●</tspan>○<tspan class="b">×</tspan></text>');
  expect(svg).toMatch(/>x+…<\/text>/);
});

it("shows each line when it is printed, and scrolls when the screen is full", () => {
  const moves = (picture: string, name: string) =>
    [...(picture.split(`@keyframes ${name}{`)[1] ?? "").split("\n")[0]!.matchAll(/([\d.]+)%\{transform:translateY\((-?\d+)px\)\}/g)].map(
      ([, at, y]) => [Number(at), Number(y)] as const,
    );
  expect(moves(svg, "print")).toEqual([
    [0, 29],
    [11.11, 46], // after pauses of 3 s and 6 s
    [33.33, 63],
  ]);
  expect(moves(svg, "scroll").map(([, y]) => y)).toEqual([8, 8, 8]);
  const many = animatedTerminal(Array.from({ length: 26 }, (_, i) => ({ atMs: i, text: "line" })));
  expect(
    moves(many, "scroll")
      .map(([, y]) => y)
      .slice(-3),
  ).toEqual([8, -9, -26]);
});

it.each(["docs/demo.svg", "docs/architecture.svg"])("%s is small, follows the colour scheme, and loads nothing", (file) => {
  const picture = readFileSync(file, "utf8");
  expect(picture.length).toBeLessThan(40_000);
  expect(picture).toContain("prefers-color-scheme:dark");
  expect(picture).not.toMatch(/<script|href=|url\((?!#)|@import/);
});

it("docs/demo.svg shows the demo to its end", () => {
  const picture = readFileSync("docs/demo.svg", "utf8");
  for (const text of ["create Deployment web", "scale web to 6", "roll web to image web:v2", "watcher-2       leads", "Done in "])
    expect(picture).toContain(text);
});
