// Would catch: a process of `dev` that does not collect garbage while memory is free; with 20,000 pods, garbage was two thirds of the
// functions' memory.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { LEAN_HEAP, startVerb } from "../../../../shared/local/processes/child-process.ts";

it.each([
  { verb: "watch", heap: LEAN_HEAP },
  { verb: "host", heap: ["--max-semi-space-size=16", "--heap-growing-percent=40", "--expose-gc"] },
])("startVerb starts this program again as a child, with $verb's heap and the given environment", async ({ verb, heap }) => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-child-"));
  const main = join(folder, "main.mjs");
  writeFileSync(main, "console.log(JSON.stringify([process.execArgv, process.argv.slice(1), process.env.GIVEN]));");
  const [node = "", ours = "", ...rest] = process.argv;
  process.argv = [node, main, ...rest];
  try {
    const child = startVerb(verb, ["--with", "this"], { GIVEN: "yes" });
    expect(JSON.parse(await child.firstLine)).toEqual([heap, [main, verb, "--child", "--with", "this"], "yes"]);
    expect(await child.exited).toEqual({ code: 0, signal: null });
  } finally {
    process.argv = [node, ours, ...rest];
    rmSync(folder, { recursive: true });
  }
});
