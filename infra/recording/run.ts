/** `npm run recording`: runs the demo and draws its output, with the original timing, as docs/demo.svg. */
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { animatedTerminal } from "./animated-terminal.ts";
import type { PrintedLine } from "./animated-terminal.ts";

const COMMAND = "npm run demo";
/** Slowdown factor: the demo takes four seconds, too fast to read. */
const SLOWER = 3;
/** How long only the command line is shown; the start of Node.js is omitted. */
const FIRST_LINE_MS = 1_000;

const printed: PrintedLine[] = [{ atMs: 0, text: `$ ${COMMAND}` }];
const demo = spawn(process.execPath, ["cli/main.ts", "demo"], {
  env: { ...process.env, NO_COLOR: "1" },
  stdio: ["ignore", "pipe", "inherit"],
});
let firstAt: number | undefined;
for await (const text of createInterface({ input: demo.stdout })) {
  firstAt ??= performance.now();
  // Omits status writes, which follow each step, so that creates and deletes stand out.
  if (!text.includes(" status: ")) printed.push({ atMs: FIRST_LINE_MS + (performance.now() - firstAt) * SLOWER, text });
}
if (demo.exitCode !== null && demo.exitCode !== 0) throw new Error(`the demo failed with exit code ${demo.exitCode}`);
writeFileSync(new URL("../../docs/demo.svg", import.meta.url), animatedTerminal(printed));
