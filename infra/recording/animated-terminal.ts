/**
 * The output of a command as an animated SVG. It is animated by CSS only, so that GitHub shows it, and follows the reader's colour scheme.
 */

export interface PrintedLine {
  readonly atMs: number;
  readonly text: string;
}

const [COLUMNS, ROWS] = [104, 24];
/** Sizes in pixels. A monospaced character is 0.6 em wide. */
const [FONT_SIZE, LINE_HEIGHT, MARGIN] = [12, 17, 12];
const WIDTH = Math.ceil(COLUMNS * FONT_SIZE * 0.6) + 2 * MARGIN;
const HEIGHT = ROWS * LINE_HEIGHT + 2 * MARGIN;
/** How long the final lines are shown before the animation restarts. */
const END_MS = 6_000;

/** Imitates a terminal: a cover hides the lines that are not printed yet; when the screen is full, printing a line moves all lines up. */
export function animatedTerminal(lines: readonly PrintedLine[]): string {
  const durationMs = Math.ceil(lines.at(-1)?.atMs ?? 0) + END_MS;
  const keyframes = (offset: (printed: number) => number): string =>
    lines.map(({ atMs }, i) => `${((100 * atMs) / durationMs).toFixed(2)}%{transform:translateY(${offset(i + 1)}px)}`).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" role="img">
<title>npm run demo: a Deployment is created, scaled and rolled to a new image while the leading watcher is stopped</title>
<style>
svg{--back:#f6f8fa;--text:#1f2328;--weak:#59636e;--good:#1a7f37;--bad:#cf222e;--step:#0969da}
@media (prefers-color-scheme:dark){svg{--back:#151b23;--text:#f0f6fc;--weak:#9198a1;--good:#3fb950;--bad:#f85149;--step:#4493f8}}
rect{fill:var(--back)}
text{fill:var(--text);font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}
.w{fill:var(--weak)}.g{fill:var(--good)}.b{fill:var(--bad)}.s{fill:var(--step);font-weight:bold}
#lines{transform:translateY(${scrolled(lines.length)}px);animation:scroll ${durationMs}ms step-end infinite}
#cover{transform:translateY(${covered(lines.length)}px);animation:print ${durationMs}ms step-end infinite}
@keyframes scroll{${keyframes(scrolled)}}
@keyframes print{${keyframes(covered)}}
@media (prefers-reduced-motion:reduce){#lines,#cover{animation:none}}
</style>
<clipPath id="screen"><rect x="0" y="${MARGIN}" width="${WIDTH}" height="${HEIGHT - 2 * MARGIN}"/></clipPath>
<rect width="${WIDTH}" height="${HEIGHT}" rx="6"/>
<g clip-path="url(#screen)"><g id="lines">
${lines.map(({ text }, i) => `<text x="${MARGIN}" y="${(i + 1) * LINE_HEIGHT}"${lineClass(text)}>${coloured(shortened(text))}</text>`).join("\n")}
</g><rect id="cover" width="${WIDTH}" height="${HEIGHT}"/></g>
</svg>
`;
}

function scrolled(printed: number): number {
  return MARGIN - 4 + Math.min(0, ROWS - printed) * LINE_HEIGHT;
}

function covered(printed: number): number {
  return MARGIN + Math.min(printed, ROWS) * LINE_HEIGHT;
}

function shortened(text: string): string {
  return text.length <= COLUMNS ? text : `${text.slice(0, COLUMNS - 1)}…`;
}

function lineClass(text: string): string {
  if (/^[>$] /.test(text)) return ' class="s"';
  return /^ {6}/.test(text) ? ' class="w"' : "";
}

function coloured(text: string): string {
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return escaped.replaceAll(/●+/g, '<tspan class="g">$&</tspan>').replaceAll(/×+/g, '<tspan class="b">$&</tspan>');
}
