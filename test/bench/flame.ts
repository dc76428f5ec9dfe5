/**
 * `node test/bench/flame.ts FILE.cpuprofile [OUT.svg]`: shows where a process spent its CPU time, as a table on standard output and as a
 * flame graph. Node.js writes a profile with --cpu-prof; `npm run bench -- --only side --profile FOLDER` makes our processes write one
 * each.
 *
 * The table lists the self time of each package (of our own code, by folder), then the functions with the most self time. In the flame
 * graph, the width of a frame is its share of the busy time, including its callees. Both omit idle time.
 */
import { readFile, writeFile } from "node:fs/promises";

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: CallFrame;
  readonly children?: readonly number[];
}

/** A profile as Node.js and Chrome write it; times in µs. */
interface Profile {
  readonly nodes: readonly ProfileNode[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface Frame {
  readonly name: string;
  /** Self time in µs. */
  own: number;
  /** Self time plus the time of the callees, in µs. */
  total: number;
  readonly children: Map<string, Frame>;
}

const FUNCTIONS = 40;
const NOT_BUSY = new Set(["(idle)", "(program)", "(root)"]);

/** Builds the call tree and merges frames of the same name with the same parent. */
export function framesOf({ nodes, samples, timeDeltas }: Profile): Frame {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const own = new Map<number, number>();
  for (const [index, id] of samples.entries()) own.set(id, (own.get(id) ?? 0) + Math.max(0, timeDeltas[index] ?? 0));
  const root: Frame = { name: "all", own: 0, total: 0, children: new Map() };
  const visit = (node: ProfileNode, into: Frame): number => {
    const { functionName } = node.callFrame;
    const isRoot = functionName === "(root)";
    const name = nameOf(node.callFrame);
    const frame = isRoot ? into : (into.children.get(name) ?? { name, own: 0, total: 0, children: new Map<string, Frame>() });
    const mine = NOT_BUSY.has(functionName) ? 0 : (own.get(node.id) ?? 0);
    let total = mine;
    for (const id of node.children ?? []) {
      const child = byId.get(id);
      if (child) total += visit(child, frame);
    }
    frame.own += mine;
    frame.total += total;
    if (!isRoot && total > 0) into.children.set(name, frame);
    return total;
  };
  const [first] = nodes;
  if (first) visit(first, root);
  return root;
}

function nameOf({ functionName, url, lineNumber }: CallFrame): string {
  const name = functionName === "" ? "(anonymous)" : functionName;
  return url === "" ? name : `${name} ${placeOf(url)}:${lineNumber + 1}`;
}

/** Returns `node:http`, a package's name, or the path of our source file. */
function placeOf(url: string): string {
  if (url.startsWith("node:")) return url;
  const inPackage = /.*node_modules\/(?<name>(?:@[^/]+\/)?[^/]+)/u.exec(url)?.groups?.["name"];
  return inPackage ?? url.replace(/^.*?\/(?=(?:dist|shared|functions|cli)\/)/u, "");
}

function table(root: Frame): string {
  const places = new Map<string, number>();
  const functions = new Map<string, number>();
  const visit = (frame: Frame): void => {
    const place = /(?: (?<place>[^ ]+):\d+)?$/u.exec(frame.name)?.groups?.["place"] ?? frame.name;
    places.set(place, (places.get(place) ?? 0) + frame.own);
    functions.set(frame.name, (functions.get(frame.name) ?? 0) + frame.own);
    for (const child of frame.children.values()) visit(child);
  };
  visit(root);
  const lines = (map: ReadonlyMap<string, number>, count: number): string =>
    [...map]
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, count)
      .map(([name, us]) => `${((us / root.total) * 100).toFixed(1).padStart(6)} % ${(us / 1_000).toFixed(0).padStart(8)} ms  ${name}\n`)
      .join("");
  return `${(root.total / 1_000).toFixed(0)} ms busy\n\nby place, alone\n${lines(places, FUNCTIONS)}\nby function, alone\n${lines(functions, FUNCTIONS)}`;
}

const [WIDTH, ROW] = [1_200, 16];
const SHARE_MIN = 0.002;

/** Renders the flame graph, with the root at the bottom. */
export function flameSvg(root: Frame): string {
  const rects: string[] = [];
  let depthMax = 0;
  const draw = (frame: Frame, x: number, depth: number): void => {
    const width = (frame.total / root.total) * WIDTH;
    if (frame.total < root.total * SHARE_MIN) return;
    depthMax = Math.max(depthMax, depth);
    rects.push(rect(frame, x, depth, width, root.total));
    let left = x;
    for (const child of [...frame.children.values()].toSorted((a, b) => b.total - a.total)) {
      draw(child, left, depth + 1);
      left += (child.total / root.total) * WIDTH;
    }
  };
  draw(root, 0, 0);
  const height = (depthMax + 1) * ROW;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 ${-height} ${WIDTH} ${height}" font-family="monospace" font-size="10">\n${rects.join("")}</svg>\n`;
}

function rect({ name, total }: Frame, x: number, depth: number, width: number, all: number): string {
  const text = name.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const hue = name.includes("dist/") ? 30 : name.includes("node:") ? 210 : name.startsWith("(") ? 0 : 120;
  const y = -(depth + 1) * ROW;
  const title = `<title>${text}: ${((total / all) * 100).toFixed(1)} %, ${(total / 1_000).toFixed(0)} ms</title>`;
  const shown = width < 30 ? "" : `<text x="${(x + 2).toFixed(1)}" y="${y + 11}">${text.slice(0, Math.floor(width / 6.2))}</text>`;
  return `<g>${title}<rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.3, width - 0.3).toFixed(1)}" height="${ROW - 1}" fill="hsl(${hue} 60% 78%)"/>${shown}</g>\n`;
}

if (import.meta.main) {
  const [file, out] = process.argv.slice(2);
  if (file === undefined) {
    process.stderr.write("node test/bench/flame.ts FILE.cpuprofile [OUT.svg]\n");
    process.exitCode = 2;
  } else {
    const root = framesOf(JSON.parse(await readFile(file, "utf8")) as Profile); // Node.js wrote the file
    process.stdout.write(table(root));
    if (out !== undefined) await writeFile(out, flameSvg(root));
  }
}
